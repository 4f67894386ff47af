package flight

import (
	"testing"
	"time"
)

func TestFit(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, c := range []struct{ base, size, need, want int }{
		{512 * k, 512 * k, 0, 512 * k},
		{512 * k, 512 * k, 512 * k, 512 * k},
		{512 * k, 512 * k, 513 * k, 2 * m}, // small ones grow quickly
		{512 * k, 512 * k, 100 * m, 2 * m},
		{512 * k, 8 * m, 9 * m, 16 * m},
		{512 * k, 8 * m, 100 * m, 16 * m},
		{512 * k, 8 * m, 2 * m, 8 * m},
		{512 * k, 8 * m, m, m}, // an eighth would do
		{512 * k, 8 * m, 0, 512 * k},
		{5000, 5000, 6000, 20000},
	} {
		got := Fit(c.base, c.size, c.need)
		if got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// A stream that stops behind a lost packet needs no less, and a short path nothing.
func TestTunerKeepsTheLargestNeed(t *testing.T) {
	var u Tuner
	now, count := time.Second, uint64(0)
	sample := func(took time.Duration, n uint64) {
		u.Begin(now, count)
		now, count = now+took, count+n
		u.End(now, count)
	}
	const trip = 20 * time.Millisecond
	sample(trip, 1000)
	for range needSamples {
		sample(3*trip, 600)
	}
	if u.Need() != 1000 {
		t.Errorf("found %d", u.Need())
	}
	for range 2 * needSamples {
		sample(3*trip, 600)
	}
	if u.Need() != 200 {
		t.Errorf("later: found %d", u.Need())
	}
	u.End(now, count+5000) // nothing is timed
	if sample(longTrip, 1<<20); u.Need() != 0 || u.Timing() {
		t.Errorf("on a short path: found %d", u.Need())
	}
}

// A path that is short when the connection is made needs nothing, although messages take long: many bytes
// on a slow line do.
func TestTunerNeedsNothingOnAShortPath(t *testing.T) {
	var u Tuner
	u.Path(longTrip)
	u.Begin(0, 0)
	if u.End(time.Second, 1<<20); u.Need() != 0 || !u.Short() {
		t.Errorf("found %d", u.Need())
	}
	u = Tuner{}
	u.Path(longTrip + 1)
	u.Begin(0, 0)
	if u.End(time.Second, 1<<20); u.Need() != 1<<20 || u.Short() {
		t.Errorf("on a long path: found %d", u.Need())
	}
	if u.Forget(); u.Need() != 0 || u.Short() {
		t.Errorf("when idle: found %d", u.Need())
	}
}
