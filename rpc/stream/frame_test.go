package stream

import (
	"bytes"
	"testing"
)

func FuzzFrames(f *testing.F) {
	f.Add(append(place{1, 2}.append(nil), 1, 'x'))
	f.Add(append(place{1, 2}.append(nil), 0, 0, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, end, data, err := parseWrite(b); err == nil {
			flags := byte(0)
			if end {
				flags = last
			}
			if out := append(append(p.append(nil), flags), data...); !bytes.Equal(out, b) {
				t.Errorf("%x was written as %x", b, out)
			}
		}
		if _, most, err := parseRead(b); err == nil && (most <= 0 || most > MaxChunk) {
			t.Errorf("a chunk of %d bytes", most)
		}
		if _, data, err := parseAnswer(b); err == nil && len(data) != len(b)-1 {
			t.Errorf("%d bytes of %d", len(data), len(b))
		}
	})
}
