package repair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The pauses between attempts grow to a bound. They are short again when the rail has worked for long, and
// stay long when it fails soon.
func TestPausesGrowUntilTheRailHasWorkedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rail
		attempts := func(n int) (last time.Duration) {
			if !r.Begin() || r.Begin() {
				t.Fatal("attempts do not begin once")
			}
			for i := range n {
				from := time.Now()
				r.Wait(context.Background())
				last = time.Since(from)
				if again := i < n-1; r.Settle(!again, again) != again {
					t.Fatal("Settle reports something else")
				}
			}
			return last
		}
		for _, c := range []struct {
			works    time.Duration
			attempts int
			want     time.Duration
		}{
			{0, 1, FirstPause}, {0, 1, 2 * FirstPause}, {0, 3, 16 * FirstPause}, {LastPause + 1, 1, FirstPause}, {0, 20, LastPause}, {LastPause, 1, LastPause},
			{LastPause + 1, 2, 2 * FirstPause},
		} {
			time.Sleep(c.works)
			if got := attempts(c.attempts); got != c.want {
				t.Errorf("%d attempts after the rail has worked for %v: the last after %v, expected %v", c.attempts, c.works, got, c.want)
			}
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var r Rail
		from := time.Now()
		if r.Wait(ctx); time.Since(from) != 0 {
			t.Errorf("waited %v", time.Since(from))
		}
	})
}
