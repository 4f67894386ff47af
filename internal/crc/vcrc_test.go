package crc

import "testing"

// bitwise returns the CRC-16 of IBTA 7.8.2, a bit at a time.
func bitwise(b []byte) uint16 {
	r := uint16(0xffff)
	for _, c := range b {
		for bit := range 8 {
			divide := r&1 != uint16(c>>bit)&1
			if r >>= 1; divide {
				r ^= 0xd008 // x^16 + x^12 + x^3 + x + 1, reversed
			}
		}
	}
	return ^r
}

func TestVCRCEveryLengthIsBitwise(t *testing.T) {
	b := page(4300)
	for n := range len(b) {
		if n > 600 && n%37 != 0 {
			continue
		}
		want := bitwise(b[:n])
		if got := Update(^uint32(0xffff), VCRC, b[:n]); uint16(got) != want {
			t.Fatalf("%d bytes: got %#04x, want %#04x", n, uint16(got), want)
		}
		if got := ^VCRC.words(0xffff, b[:n]); uint16(got) != want {
			t.Fatalf("%d bytes without multiplication: got %#04x, want %#04x", n, uint16(got), want)
		}
	}
}
