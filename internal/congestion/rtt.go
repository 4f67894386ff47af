package congestion

import "time"

// An RTT measures the round trips of one connection (RFC 6298, 2). It takes 32 bytes:
// times are kept in nanoseconds up to four seconds.
type RTT struct {
	smoothed, deviation uint32
	least, younger      uint32 // smallest of the last two epochs, and of the current one
	latest              uint32
	epoch               time.Duration // when this epoch ends
	low, fresh          uint32        // smallest of the last lowTrips to 2*lowTrips round trips, and of the newest part of them
	turn                time.Duration // when fresh restarts
}

// leastEpoch is half the age at which the smallest round trip is dropped: a path that
// became longer is known after two epochs.
const leastEpoch = 10 * time.Second

const longest = time.Duration(1<<32 - 1)

// Sample adds a round trip.
func (r *RTT) Sample(now, d time.Duration) {
	v := uint32(min(max(d, 1), longest))
	r.latest = v
	if r.smoothed == 0 {
		r.smoothed, r.deviation = v, v/2
		r.least, r.younger, r.epoch = v, v, now+leastEpoch
		r.low, r.fresh, r.turn = v, v, now+lowTrips*d
		return
	}
	off := int64(v) - int64(r.smoothed)
	r.smoothed = uint32(int64(r.smoothed) + off/8)
	if off < 0 {
		off = -off
	}
	r.deviation = uint32(int64(r.deviation) + (off-int64(r.deviation))/4)
	r.settle(now, v)
	r.younger = min(r.younger, v)
	r.least = min(r.least, v)
	if now >= r.epoch {
		r.least, r.younger, r.epoch = r.younger, v, now+leastEpoch
	}
}

// Lengthened notes that the path has become longer: d is its smallest round trip now.
func (r *RTT) Lengthened(now, d time.Duration) {
	v := uint32(min(max(d, 1), longest))
	r.least, r.younger, r.epoch = v, v, now+leastEpoch
}

// Known reports whether there was a sample.
func (r *RTT) Known() bool { return r.smoothed != 0 }

// Smoothed returns the recent mean.
func (r *RTT) Smoothed() time.Duration { return time.Duration(r.smoothed) }

// Deviation returns the mean deviation from it.
func (r *RTT) Deviation() time.Duration { return time.Duration(r.deviation) }

// Least returns the smallest recent round trip: the path without queues.
func (r *RTT) Least() time.Duration { return time.Duration(r.least) }

// Latest returns the last sample.
func (r *RTT) Latest() time.Duration { return time.Duration(r.latest) }

// lowTrips is the number of consecutive round trips that must all be long to indicate a queue.
// A process that waits for its processor makes some of them long, a queue makes all of them
// long.
const lowTrips = 2

// settle updates the smallest of recent round trips.
func (r *RTT) settle(now time.Duration, v uint32) {
	if now >= r.turn {
		r.low, r.fresh = r.fresh, v
		if now >= r.turn+lowTrips*r.Smoothed() {
			r.low = v // the earlier ones are too old
		}
		r.turn = now + lowTrips*r.Smoothed()
	}
	r.fresh = min(r.fresh, v)
	r.low = min(r.low, v)
}

// Low returns the smallest round trip of the last few.
func (r *RTT) Low() time.Duration { return time.Duration(r.low) }

// queueSlack is how much longer than twice the minimum all round trips may be without
// indicating a queue, because processes wait for their processors.
const queueSlack = 100 * time.Microsecond

// Calm reports whether round trips are so short that there can be no queue.
func (r *RTT) Calm() bool {
	return max(r.smoothed, r.latest) < r.least+r.least/4+uint32(queueSlack/4)
}

// Queued reports whether round trips are so long that packets must be queued somewhere. A
// loss is then more likely an overflow than an accident.
func (r *RTT) Queued() bool { return r.Low() > 2*r.Least()+queueSlack }
