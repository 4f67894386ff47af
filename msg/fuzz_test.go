package msg

import (
	"bytes"
	"testing"

	"softrdma/internal/message"
)

// What is read as an address or as private data is what would be written, and within the limits.
func FuzzAddress(f *testing.F) {
	a := address{hello: hello{7, message.Config{Eager: 1, Credits: 2, Announced: 3, Active: 4, Stream: 5}}}
	f.Add(a.bytes())
	a.rails = make([]railAddress, 2)
	f.Add(a.bytes())
	f.Add((&joining{pairs: []pair{{1, 2}, {3, 0}}, new: true, rail: 1}).bytes())
	f.Add(greeting{a.hello, toListener, []byte("private")}.bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAddress(b); err == nil && !bytes.Equal(a.bytes(), b) {
			t.Errorf("%x is read as %+v", b, a)
		}
		if j, err := parseJoining(b, 4); err == nil {
			for i, p := range j.pairs {
				j.pairs[i] = pair{p.peer, p.own}
			}
			if !bytes.Equal(j.bytes(), b) {
				t.Errorf("%x is read as %+v", b, j)
			}
		}
		g, err := parseGreeting(b)
		if err != nil {
			return
		}
		if !bytes.HasPrefix(b, g.bytes()) {
			t.Errorf("%x is read as %+v", b, g)
		}
		c := g.accepts
		if c.Eager < 1 || c.Eager > MaxEager || c.Stream < 1 || c.Stream > MaxStream || max(c.Credits, c.Announced, c.Active) > MaxUnexpected {
			t.Errorf("limits %+v are accepted", c)
		}
	})
}
