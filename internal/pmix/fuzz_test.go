package pmix

import (
	"bytes"
	"math"
	"testing"
)

// A server's answer gives a value that it contains, or an error.
func FuzzAnswer(f *testing.F) {
	for _, r := range recordings() {
		f.Add(r.format.flexible, unhex(f, r.value)[len(unhex(f, r.ok)):])
	}
	f.Fuzz(func(t *testing.T, flexible bool, b []byte) {
		format, name := formats[1], "1491206145"
		if flexible {
			format, name = formats[0], "1492385793"
		}
		u := &unpacker{format: format, b: b}
		switch v, err := u.find(name, 0, "softrdma"); {
		case err == nil && !bytes.Contains(b, v):
			t.Errorf("value %q is not in %q", v, b)
		case err != nil && v != nil:
			t.Errorf("value %q with %v", v, err)
		}
	})
}

// Numbers and strings are read back as they were written.
func FuzzItems(f *testing.F) {
	f.Add(uint64(0), "", []byte{})
	f.Add(uint64(0x7f), "text", []byte("bytes"))
	f.Add(uint64(0x80), "\xff", []byte{0})
	f.Add(uint64(math.MaxInt64), "x", []byte("x"))
	f.Add(uint64(math.MaxUint64), "x", []byte("x"))
	f.Fuzz(func(t *testing.T, n uint64, s string, b []byte) {
		for _, format := range formats {
			p := &packer{format: format}
			p.uint8(uint8(n))
			p.uint16(uint16(n))
			p.uint32(uint32(n))
			p.int32(int32(n))
			p.size(int(n >> 1))
			if format.flexible {
				p.flex(n)
			}
			p.string(s)
			p.bytes(b)
			u := &unpacker{format: format, b: p.b}
			right := u.uint8() == uint8(n) && u.uint(2) == uint64(uint16(n)) && u.uint(4) == uint64(uint32(n)) &&
				u.int32() == int32(n) && u.size() == n>>1 && (!format.flexible || u.flex() == n) &&
				u.string() == s && bytes.Equal(u.bytes(), b) && u.err == nil && !u.more()
			if !right {
				t.Errorf("%s: %d, %q, %q are written as %x and read as others: %v", format.module, n, s, b, p.b, u.err)
			}
		}
	})
}
