package measure

import "testing"

func TestFirstDifferenceFindsChangedByte(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 1000} {
		b := make([]byte, n)
		fillPattern(b, 5)
		if at := firstDifference(b, 5); at >= 0 {
			t.Errorf("%d bytes: differ from themselves at %d", n, at)
		}
		for _, at := range []int{0, n / 2, n - 1} {
			b[at] ^= 1
			if found := firstDifference(b, 5); found != at {
				t.Errorf("%d bytes changed at %d: found %d", n, at, found)
			}
			b[at] ^= 1
		}
	}
}
