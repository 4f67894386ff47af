package rc

import (
	"testing"
	"time"
)

func TestLeftoverDecreasesWithinARoundTrip(t *testing.T) {
	for _, c := range []struct {
		passed time.Duration
		left   int64
	}{{0, 1000}, {250 * time.Microsecond, 750}, {999 * time.Microsecond, 1}, {time.Millisecond, 0}, {time.Second, 0}} {
		s := leftover{bytes: 1000, at: time.Second, trip: time.Millisecond}
		if got := s.left(time.Second + c.passed); got != c.left {
			t.Errorf("%d left after %v, expected %d", got, c.passed, c.left)
		}
	}
}
