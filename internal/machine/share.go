package machine

import "time"

// A Share limits what the queue pairs of one lane have in flight to one peer
// together. A queue pair may always have one packet in flight, and the packets of
// thousands overrun the peer's socket, however small their windows are. The lane counts
// (Count); a machine calls Admits before it sends more, and reports what it has in
// flight by InFlight.
type Share struct {
	Limit int64 // bytes
	used  int64
	epoch uint32
}

// Others returns the bytes that all but p have in flight.
func (s *Share) Others(p *Port) int64 {
	if p.epoch == s.epoch {
		return s.used - p.counted
	}
	return s.used
}

// Forget counts everything in flight as arrived or lost.
func (s *Share) Forget() {
	s.used = 0
	s.epoch++
}

// An InFlightReporter is a Machine that knows how many bytes it has in flight.
type InFlightReporter interface {
	InFlight() int64
}

// Count notes what p has in flight now, and reports whether that is less than before. A
// READ may bring more than a window: what is beyond the window does not count, so that
// one READ does not keep all others waiting.
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

// farAway is the round trip above which most of the bytes in flight are in the network
// and not in the peer's socket.
const farAway = time.Millisecond

// Admits reports whether p, at the given round trip from the peer, may come to have so
// many bytes in flight. If it may not, the lane lets it try again when its turn comes.
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
