package congestion

import (
	"math"
	"time"
)

// The parameters of Swift, as published (SIGCOMM 2020). Windows are in packets.
const (
	swiftBase     = 25 * time.Microsecond  // target of queueing on a path, for large windows
	swiftRange    = 100 * time.Microsecond // added to it for the smallest ones
	swiftScaleMin = 0.1                    // window at which the whole range is added
	swiftScaleMax = 100.0                  // and from which on nothing is
	swiftStep     = 1.0                    // growth in a round trip
	swiftBeta     = 0.8                    // of the decrease
	swiftCut      = 0.5                    // of the window, at most, in a round trip
	swiftLeast    = 0.001                  // smallest window
	swiftTimeouts = 5                      // in a row, after which the window is the smallest
)

// swift keeps the round trip at a target, which is longer for small windows so that flows share
// fairly. Below one packet the window becomes a pause between packets. The paper measures the two
// ends apart from the network, and adds a part for each switch: here the target is above the smallest
// round trip, which has both.
type swift struct {
	size   float64 // packets
	limits Limits
	losses losses

	cutAt    time.Duration // from when on the window may shrink again
	trip     time.Duration // last round trip
	free     time.Duration // when the next packet may leave, with a window below one
	timeouts uint8
}

func newSwift(l Limits) *swift {
	s := &swift{limits: l}
	s.set(initialDelay)
	return s
}

// swiftTarget returns the target of queueing for a window.
func swiftTarget(packets float64) time.Duration {
	few, many := 1/math.Sqrt(swiftScaleMin), 1/math.Sqrt(swiftScaleMax)
	share := (1/math.Sqrt(packets) - many) / (few - many)
	return swiftBase + time.Duration(min(max(share, 0), 1)*float64(swiftRange))
}

// Sent implements Control.
func (s *swift) Sent(now time.Duration, n int, _ int64) {
	if r := s.Rate(); r > 0 {
		s.free = max(s.free, now) + time.Duration(float64(n)/r*float64(time.Second))
	}
}

// Acked implements Control.
func (s *swift) Acked(now time.Duration, n int, sample time.Duration, rtt *RTT) {
	s.losses.delivered(now, n, rtt)
	s.timeouts = 0
	acked := float64(n) / float64(s.limits.Packet)
	if sample > 0 {
		s.trip = sample
		if target := s.limits.least(rtt) + swiftTarget(s.size); sample >= target {
			s.shrink(now, min(swiftBeta*float64(sample-target)/float64(sample), swiftCut), rtt)
			return
		}
	}
	if s.trip == 0 {
		return
	}
	s.set(s.size + swiftStep*acked/max(s.size, 1))
}

// shrink takes a part of the window, at most once in a round trip.
func (s *swift) shrink(now time.Duration, part float64, rtt *RTT) {
	if now < s.cutAt {
		return
	}
	s.cutAt = now + rtt.Smoothed()
	s.set(s.size * (1 - part))
}

func (s *swift) set(packets float64) {
	s.size = min(max(packets, swiftLeast), float64(s.limits.Window)/float64(max(s.limits.Packet, 1)))
}

// Lost implements Control.
func (s *swift) Lost(now time.Duration, n int, rtt *RTT) {
	if s.losses.lost(now, n, s.limits.Packet, rtt) {
		s.shrink(now, swiftCut, rtt)
	}
}

// Timeout implements Control.
func (s *swift) Timeout(now time.Duration) {
	if s.timeouts++; s.timeouts >= swiftTimeouts {
		s.timeouts = swiftTimeouts
		s.set(swiftLeast)
		return
	}
	if now >= s.cutAt {
		s.cutAt = now + s.trip
		s.set(s.size * (1 - swiftCut))
	}
}

// Notified implements Control. A mark counts although the packets do not ask for it.
func (s *swift) Notified(now time.Duration, rtt *RTT) {
	if s.losses.once(now, rtt) {
		s.shrink(now, swiftCut, rtt)
	}
}

// Window implements Control. One packet may always be in flight.
func (s *swift) Window() int { return int(max(s.size, 1) * float64(s.limits.Packet)) }

// Ready implements Control.
func (s *swift) Ready(now time.Duration) time.Duration {
	if s.size >= 1 {
		return now
	}
	return s.free
}

// Rate implements Control.
func (s *swift) Rate() float64 {
	if s.size >= 1 || s.trip == 0 {
		return 0
	}
	return max(s.size*float64(s.limits.Packet)/s.trip.Seconds(), slowest)
}

// Paces implements Control.
func (*swift) Paces() bool { return true }
