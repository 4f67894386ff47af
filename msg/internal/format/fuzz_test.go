package format

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"softrdma/internal/message"
)

// What is read as an address or as private data is what would be written, and within the limits.
func FuzzAddress(f *testing.F) {
	a := Address{Hello: Hello{7, message.Config{Eager: 1, Credits: 2, Announced: 3, Active: 4, Stream: 5}}}
	f.Add(a.Bytes())
	a.Rails = make([]RailAddress, 2)
	f.Add(a.Bytes())
	f.Add((&Joining{Pairs: []Pair{{1, 2}, {3, 0}}, New: true, Rail: 1, Connection: 1}).Bytes())
	f.Add(Greeting{a.Hello, ToListener, []byte("private")}.Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseAddress(b); err == nil && !bytes.Equal(a.Bytes(), b) {
			t.Errorf("%x is read as %+v", b, a)
		}
		if j, err := ParseJoining(b, 4); err == nil {
			for i, p := range j.Pairs {
				j.Pairs[i] = Pair{p.Peer, p.Own}
			}
			if !bytes.Equal(j.Bytes(), b) {
				t.Errorf("%x is read as %+v", b, j)
			}
		}
		g, err := ParseGreeting(b)
		if err != nil {
			return
		}
		if !bytes.HasPrefix(b, g.Bytes()) {
			t.Errorf("%x is read as %+v", b, g)
		}
		c := g.Accepts
		if c.Eager < 1 || c.Eager > MaxEager || c.Stream < 1 || c.Stream > MaxStream || max(c.Credits, c.Announced, c.Active) > MaxUnexpected {
			t.Errorf("limits %+v are accepted", c)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte("softrdma key"))
	f.Add(fmt.Appendf(nil, "softrdma key\x01%28d", 0))
	f.Add((&Key{Worker: 7, Address: 1 << 40, Length: 4096, Keys: []uint32{0x1234}, Rights: 5}).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKey(b)
		switch {
		case err != nil:
			if !errors.Is(err, ErrKey) && !errors.Is(err, message.ErrVersion) {
				t.Errorf("%x: %v", b, err)
			}
		case !bytes.Equal(k.Bytes(), b):
			t.Errorf("%x was read as %+v", b, k)
		}
	})
}
