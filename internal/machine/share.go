package machine

import "time"

// A Share is what the queue pairs of one lane have in flight to one peer
// together. Each has a window, which it may always open with one packet: of
// thousands that is more than the peer's socket holds, however slow they are.
// The lane counts; a machine asks by Admits before it adds to what it has in
// flight, and says what that is by InFlight.
type Share struct {
	Limit int64 // bytes
	used  int64
	epoch uint32
}

// Others is what all but p have in flight, bytes.
func (s *Share) Others(p *Port) int64 {
	if p.epoch == s.epoch {
		return s.used - p.counted
	}
	return s.used
}

// Forget takes for arrived or lost what is in flight now.
func (s *Share) Forget() {
	s.used = 0
	s.epoch++
}

// An InFlightReporter is a Machine that knows how many bytes it has in flight.
type InFlightReporter interface {
	InFlight() int64
}

// Count takes note of what p has in flight now and reports whether that is less
// than before. A READ may bring more than a window: what is beyond it counts for
// nothing, so that one does not keep all others waiting.
func (s *Share) Count(p *Port, flight int64) (less bool) {
	flight = min(flight, int64(p.Window))
	if p.epoch != s.epoch {
		p.counted, p.epoch = 0, s.epoch
	}
	less = flight < p.counted
	s.used += flight - p.counted
	p.counted = flight
	return less
}

// farAway is the round trip behind which a peer's socket is not what most of
// the bytes in flight wait in.
const farAway = time.Millisecond

// Admits reports whether p, at a round trip from the peer, may come to have so
// much in flight. Where it may not the lane lets it try again when it is its
// turn.
func (p *Port) Admits(flight int64, trip time.Duration) bool {
	s := p.Share
	if s == nil {
		return true
	}
	others, limit := s.Others(p), s.Limit
	if trip > farAway {
		limit = int64(float64(limit) * float64(trip) / float64(farAway))
	}
	if others <= 0 || others+min(flight, int64(p.Window)) <= limit {
		return true
	}
	p.Waits = true
	return false
}
