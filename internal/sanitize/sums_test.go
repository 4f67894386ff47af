package sanitize

import "testing"

func TestSumsNameTheBytesThatChanged(t *testing.T) {
	short, long := make([]byte, 100), make([]byte, 4096)
	parts := [][]byte{short, long}
	for _, c := range []struct {
		changed []*byte
		want    string
	}{
		{nil, ""},
		{[]*byte{&short[0]}, "bytes 0 to 63"},
		{[]*byte{&short[99]}, "bytes 64 to 99"},
		{[]*byte{&long[128]}, "bytes 228 to 355"},
		{[]*byte{&short[99], &long[4095]}, "bytes 64 to 4195"},
	} {
		s, ok := sumsOf(parts)
		if !ok {
			t.Fatal("the memory could not be read")
		}
		for _, b := range c.changed {
			*b ^= 1
		}
		if found := s.changed(parts); found != c.want {
			t.Errorf("expected %q, found %q", c.want, found)
		}
	}
}

// Of long buffers only some bytes are read.
func TestSumsOfLongBuffersAreSamples(t *testing.T) {
	b := make([]byte, 16<<20)
	read := 0
	each([][]byte{b}, func(_, _ int, b []byte) { read += len(b) })
	if read == 0 || read > 2*samples*sampleBytes {
		t.Errorf("%d bytes are hashed", read)
	}
	s, _ := sumsOf([][]byte{b})
	b[len(b)/samples]++
	if found := s.changed([][]byte{b}); found != "bytes 65536 to 131071" {
		t.Errorf("found %q", found)
	}
}
