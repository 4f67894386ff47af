package loop

import (
	"slices"
	"time"
)

// maxSamples is the maximum number of round trips of a ping.
const maxSamples = 1 << 22

// latencyOf returns percentiles of half the round trips.
func latencyOf(trips []time.Duration) Result {
	if len(trips) == 0 {
		return Result{}
	}
	slices.Sort(trips)
	at := func(share float64) float64 {
		return float64(trips[min(len(trips)-1, int(share*float64(len(trips))))].Nanoseconds()) / 2e3
	}
	return Result{P50: at(.5), P99: at(.99)}
}
