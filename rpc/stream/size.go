package stream

import (
	"time"

	"softrdma/internal/flight"
)

// A sizer chooses how long the chunks of one direction are at most. The number of chunks on their way does
// not change, so what fills a long path is longer chunks. A chunk takes two round trips: its call and its
// answer, with a READ between. Where packets are lost, it takes another one or two until all of it has
// come, so what passes in that time is counted three times.
type sizer struct {
	fixed  bool // by the program
	window int
	chunk  int
	most   int // that the other end accepts
	path   flight.Tuner
	timed  uint64 // number of the chunk that is timed
	passed uint64 // bytes
}

func newSizer(cfg *Config, fixed bool, trip time.Duration, most int) sizer {
	s := sizer{fixed: fixed, window: cfg.Window, chunk: cfg.Chunk, most: max(min(most, MaxChunk), 1)}
	if !fixed {
		s.chunk = min(s.chunk, s.most)
	}
	s.path.Path(trip)
	return s
}

var start = time.Now()

// begin notes that a chunk is on its way.
func (s *sizer) begin(number uint64) {
	if !s.fixed && !s.path.Short() && !s.path.Timing() {
		s.timed = number
		s.path.Begin(time.Since(start), s.passed)
	}
}

// end notes that a chunk of n bytes has arrived.
func (s *sizer) end(number uint64, n int) {
	s.passed += uint64(n)
	if !s.path.Timing() || s.timed != number {
		return
	}
	s.path.End(time.Since(start), s.passed)
	all := flight.Fit(s.window*defaultChunk, s.window*s.chunk, 3*s.path.Need())
	s.chunk = min(all/s.window, s.most)
}
