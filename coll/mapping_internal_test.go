package coll

import (
	"math"
	"testing"
)

// What another member offers is used only as far as it is in its memory.
func TestElementsAtAreInsideTheMemory(t *testing.T) {
	b := raw(make([]uint64, 10))
	for _, x := range []struct {
		at    uint64
		lo, n int
		ok    bool
	}{
		{0, 0, 20, true},
		{8, 2, 16, true},
		{76, 0, 1, true},
		{0, 0, 21, false},
		{8, 2, 17, false},
		{80, 0, 1, false},
		{81, 0, 1, false},
		{2, 0, 1, false}, // not aligned
		{math.MaxUint64 - 3, 0, 1, false},
		{math.MaxUint64 - 3, 1, 1, false}, // the sum is 0
		{math.MaxUint64 - 7, 3, 1, false}, // the sum is 4
	} {
		e := elementsAt[uint32](b, x.at, x.lo, x.n)
		if (e != nil) != x.ok || x.ok && len(e) != x.n {
			t.Errorf("%+v: %d elements", x, len(e))
		}
	}
}
