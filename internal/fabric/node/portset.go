package node

import (
	"iter"
	"math/bits"
)

// A portSet is a set of ports, up to 255.
type portSet [4]uint64

func (s *portSet) remove(port int) { s[port/64] &^= 1 << (port % 64) }

// all ranges over the ports in ascending order.
func (s *portSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
