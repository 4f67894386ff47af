package measure

import (
	"encoding/binary"
	"math/rand/v2"
)

// fillPattern fills b with bytes that seed determines.
func fillPattern(b []byte, seed uint64) {
	r := rand.NewPCG(seed, 0)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	if len(b) > 0 {
		var tail [8]byte
		binary.LittleEndian.PutUint64(tail[:], r.Uint64())
		copy(b, tail[:])
	}
}

// firstDifference returns the offset of the first byte that fillPattern would not write
// for the seed, or -1.
func firstDifference(b []byte, seed uint64) int {
	r := rand.NewPCG(seed, 0)
	for at := 0; at < len(b); at += 8 {
		var want [8]byte
		binary.LittleEndian.PutUint64(want[:], r.Uint64())
		for k, c := range b[at:min(at+8, len(b))] {
			if c != want[k] {
				return at + k
			}
		}
	}
	return -1
}
