package madtest

import (
	"bytes"
	"testing"
)

// Fuzz reads anything as each of the formats: what was read is written so that it reads the same.
func Fuzz(f *testing.F, layouts []Layout) {
	f.Add([]byte{1})
	f.Add(bytes.Repeat([]byte{0xff}, 256))
	f.Fuzz(func(t *testing.T, data []byte) {
		for i := range layouts {
			l := &layouts[i]
			b, first, second := make([]byte, l.Len), make([]byte, l.Len), make([]byte, l.Len)
			copy(b, data)
			v, again := l.New(), l.New()
			l.Parse(v, b)
			l.Put(v, first)
			l.Parse(again, first)
			if l.Put(again, second); !bytes.Equal(first, second) {
				t.Fatalf("%s: %x is written again as %x", l.Name, first, second)
			}
		}
	})
}
