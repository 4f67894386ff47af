package congestion

import "time"

// The parameters of TIMELY, as published (SIGCOMM 2015, and for the segment CoNEXT 2016, "ECN or
// Delay"). The thresholds are for a path of 20 µs. On a longer one they are as far above its smallest
// round trip.
const (
	timelyLow  = 50 * time.Microsecond  // below it the rate grows
	timelyHigh = 500 * time.Microsecond // above it the rate shrinks, whatever the gradient
	timelyPath = 20 * time.Microsecond

	timelyWeight  = 0.875    // of the newest difference between two round trips
	timelyBeta    = 0.8      // of the decrease
	timelyStep    = 1.25e6   // bytes per second: 10 Mbit/s
	timelySegment = 16 << 10 // bytes that are acknowledged between two changes of the rate
	timelyFast    = 5        // changes in a row without a growing queue, after which the step is as many times larger
	timelyCut     = 0.5      // of the rate is left at least; the gradient of a short path has no bound
)

// timely follows the gradient of the round trip: the rate grows by a step while the queue does not,
// and shrinks by a part in proportion to the growth of the queue. The rate changes once for each
// segment, and at most once in the smallest round trip. The paper begins at a share of the line's
// rate, which a process does not know: here the rate doubles with each round trip up to the first one
// above the lower threshold. The network of the paper loses nothing; here a loss that goes with a
// queue halves the rate once in a round trip.
type timely struct {
	pacer
	limits Limits
	losses losses

	before  time.Duration // round trip at the last change
	growth  float64       // mean difference of two round trips, in seconds
	acked   int           // bytes since the last change
	changed time.Duration
	falling uint8 // changes in a row without a growing queue
	fresh   bool  // no queue yet
}

func newTimely(l Limits) *timely { return &timely{limits: l, fresh: true} }

// thresholds returns the round trips between which the gradient decides.
func (t *timely) thresholds(rtt *RTT) (low, high time.Duration) {
	longer := max(t.limits.least(rtt)-timelyPath, 0)
	return timelyLow + longer, timelyHigh + longer
}

// Sent implements Control.
func (t *timely) Sent(now time.Duration, n int, _ int64) {
	if t.rate > 0 {
		t.pass(now, n, 2*t.quantum())
	}
}

// quantum returns the duration of the data that is sent at once: at least one packet.
func (t *timely) quantum() time.Duration { return max(t.limits.quantum(), t.took(t.limits.Packet)) }

// Acked implements Control.
func (t *timely) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	t.losses.delivered(now, n, rtt)
	t.acked += n
	switch {
	case sample <= 0:
		return
	case t.rate == 0:
		t.set(initialDelay * float64(t.limits.Packet) / sample.Seconds())
	case now-t.changed < t.limits.least(rtt) || t.acked < timelySegment && !t.fresh:
		return
	default:
		t.change(sample, rtt)
	}
	t.before, t.changed, t.acked = sample, now, 0
}

// change is one step of the algorithm.
func (t *timely) change(sample time.Duration, rtt *RTT) {
	low, high := t.thresholds(rtt)
	t.growth += timelyWeight * ((sample - t.before).Seconds() - t.growth)
	gradient := t.growth / t.limits.least(rtt).Seconds()
	if gradient > 0 {
		t.falling = 0
	} else {
		t.falling = min(t.falling+1, timelyFast)
	}
	switch {
	case t.fresh && sample < low:
		t.set(2 * t.rate)
		return
	case sample < low:
		t.set(t.rate + timelyStep)
	case sample > high:
		t.set(t.rate * (1 - timelyBeta*(1-float64(high)/float64(sample))))
	case gradient > 0:
		t.set(t.rate * max(1-timelyBeta*gradient, timelyCut))
	case t.falling == timelyFast:
		t.set(t.rate + timelyFast*timelyStep)
	default:
		t.set(t.rate + timelyStep)
	}
	t.fresh = false
}

func (t *timely) set(rate float64) { t.rate = min(max(rate, slowest), fastest) }

// cut halves the rate.
func (t *timely) cut() {
	t.fresh = false
	if t.rate > 0 {
		t.set(t.rate * timelyCut)
	}
}

// Lost implements Control.
func (t *timely) Lost(now time.Duration, n int, rtt *RTT) {
	if t.losses.lost(now, n, t.limits.Packet, rtt) {
		t.cut()
	}
}

// Timeout implements Control.
func (t *timely) Timeout(time.Duration) { t.cut() }

// Notified implements Control. A mark counts although the packets do not ask for it.
func (t *timely) Notified(now time.Duration, rtt *RTT) {
	if t.losses.once(now, rtt) {
		t.cut()
	}
}

// Window implements Control. At the start, when the effect of a rate is not known yet, it is what the
// rate sends in two round trips.
func (t *timely) Window() int {
	if !t.fresh {
		return t.limits.Window
	}
	return min(max(int(2*t.rate*t.before.Seconds()), initialDelay*t.limits.Packet), t.limits.Window)
}

// Ready implements Control.
func (t *timely) Ready(now time.Duration) time.Duration {
	if t.rate == 0 {
		return now
	}
	return t.ready(now, t.quantum(), t.limits.Packet)
}

// Paces implements Control.
func (*timely) Paces() bool { return true }
