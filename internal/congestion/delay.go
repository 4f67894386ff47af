package congestion

import (
	"math"
	"time"
)

// The parameters of delay-based control, similar to Swift (SIGCOMM 2020).
const (
	queueTarget  = 50 * time.Microsecond  // target of queueing
	scaleTarget  = 200 * time.Microsecond // added to it for small windows
	delayBeta    = 0.8
	deepestCut   = 0.5 // of the window, per round trip
	largestScale = 100 // packets: larger windows only have queueTarget
	initialDelay = 4   // packets: flows that begin together must be able to measure the path without a queue
)

// delay keeps the queueing on the path near a target. Below the target the window grows
// by a packet per round trip; above it, it shrinks once per round trip in proportion to
// the excess. The target rises as the window falls, so many flows with small windows get
// their share from those with large ones. Losses without queueing do not count. Packets
// are not sent as ECN-capable.
type delay struct {
	size   float64 // bytes
	cutAt  time.Duration
	limits Limits
	losses losses
	fresh  bool // no queueing yet: the window doubles per round trip
	late   bool // the last sample was above the target
}

func newDelay(l Limits) *delay {
	return &delay{size: float64(min(initialDelay*l.Packet, l.Window)), limits: l, fresh: true}
}

// target returns the round trip to reach.
func (d *delay) target(rtt *RTT) time.Duration {
	packets := max(d.size/float64(d.limits.Packet), 0.1)
	least := 1 / math.Sqrt(largestScale)
	share := max(1/math.Sqrt(packets)-least, 0) / (1 - least)
	return rtt.Least() + queueTarget + time.Duration(min(share, 1)*float64(scaleTarget))
}

// Sent implements Control.
func (d *delay) Sent(time.Duration, int, int64) {}

// Acked implements Control.
func (d *delay) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	d.losses.delivered(now, n, rtt)
	if sample > 0 {
		target := d.target(rtt)
		if d.late = sample > target; d.late && now >= d.cutAt {
			d.cutAt = now + rtt.Smoothed()
			over := float64(sample-target) / float64(sample)
			d.set(d.size * max(1-delayBeta*over, 1-deepestCut))
		}
	}
	switch {
	case d.late:
		d.fresh = false
	case d.fresh:
		d.set(d.size + float64(n))
	default:
		d.set(d.size + float64(d.limits.Packet)*float64(n)/d.size)
	}
}

func (d *delay) set(v float64) {
	d.size = min(max(v, leastDelay*float64(d.limits.Packet)), float64(d.limits.Window))
}

// leastDelay is the smallest window, in packets: without pacing it cannot be smaller.
const leastDelay = 1

// Lost implements Control.
func (d *delay) Lost(now time.Duration, n int, rtt *RTT) {
	if d.losses.lost(now, n, d.limits.Packet, rtt) {
		d.fresh = false
		d.set(d.size * (1 - deepestCut))
	}
}

// Timeout implements Control.
func (d *delay) Timeout(time.Duration) {
	d.fresh = false
	d.set(d.size * (1 - deepestCut))
}

// Notified implements Control. A mark counts although the packets do not ask for it.
func (d *delay) Notified(now time.Duration, rtt *RTT) {
	if d.losses.once(now, rtt) {
		d.Timeout(now)
	}
}

// Window implements Control.
func (d *delay) Window() int { return int(d.size) }

// Ready implements Control.
func (d *delay) Ready(time.Duration) time.Duration { return 0 }

// Rate implements Control.
func (d *delay) Rate() float64 { return 0 }

// Paces implements Control.
func (d *delay) Paces() bool { return false }
