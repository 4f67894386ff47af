package crc

import "encoding/binary"

// sparseFrom is the measured length from which sparse is faster than tables. It exceeds the
// rest that needs tables.
const sparseFrom = 64

// sparse updates the register with b on processors that do not multiply polynomials. It
// adds multiples of Ethernet's polynomial to the message. Each cancels a bit at the front
// and changes the four bits 145, 183, 211 and 300 bits after it:
// x^300 + x^155 + x^117 + x^89 + 1 is such a multiple. This takes shifts instead of one
// table load for each byte. The last 40 bytes remain.
// (The multiple is that of K. Russell's Chorba, arXiv 2412.16398.)
func (t *Table) sparse(r uint32, b []byte) uint32 {
	if len(b) >= sparseFrom {
		n0, n1, n2, n3, n4 := uint64(r), uint64(0), uint64(0), uint64(0), uint64(0) // what changes the next words
		for len(b) >= 48 {
			w := binary.LittleEndian.Uint64(b) ^ n0
			n0 = n1
			n1 = n2 ^ w<<17 ^ w<<55
			n2 = n3 ^ w>>47 ^ w>>9 ^ w<<19
			n3 = n4 ^ w>>45 ^ w<<44
			n4 = w >> 20
			b = b[8:]
		}
		r = 0
		for _, n := range [...]uint64{n0, n1, n2, n3, n4} {
			r = t.word(r, binary.LittleEndian.Uint64(b)^n)
			b = b[8:]
		}
	}
	return t.words(r, b)
}
