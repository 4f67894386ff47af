package adapter

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// sharedYield and sharedFactor tell a yield in which somebody else ran: it took so
	// long, and so many times as long as the shortest one.
	sharedYield  = 3 * time.Microsecond
	sharedFactor = 4

	// newcomerPatience is how many yields in a row somebody else may run in before a
	// thread moves that just came to the processor: others come for a moment.
	newcomerPatience = 3

	// residentPatience is how many yields in a row somebody else may run in before
	// who was there first moves, and up to as many again, by chance: of two that
	// take turns only one is to move.
	residentPatience = 6

	// minSeatWait and maxSeatWait bound how often a poller moves. The wait doubles
	// where moving did not help, and is forgotten after sixteen times as long.
	minSeatWait = time.Millisecond
	maxSeatWait = 128 * time.Millisecond
)

// A seat is what a poller knows of its processor: whether it has it alone. Go's
// monitor has a goroutine that ran for 10 ms go on in another thread, which the
// system may wake where the peer polls. They then take turns, each round trip
// takes five times as long, and another processor has nothing to do until the
// system balances its load some milliseconds later. Who notices moves.
type seat struct {
	mu       sync.Mutex // held while a yield is noted; who finds it taken notes nothing
	shortest time.Duration
	thread   int // that yielded last
	shared   int // yields in a row in which somebody else ran
	patience int
	moved    time.Duration
	wait     time.Duration
}

// yielded notes a yield of the thread that took so long until now, and tells
// whether to look for another processor.
func (s *seat) yielded(thread int, took, now time.Duration) (move bool) {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if s.shortest == 0 || took < s.shortest {
		s.shortest = took
	}
	if took < max(sharedYield, sharedFactor*s.shortest) {
		s.shared = 0
		s.thread = thread
		return false
	}
	if s.shared == 0 {
		s.patience = residentPatience + rand.IntN(residentPatience)
		if thread != s.thread {
			s.patience = newcomerPatience
		}
	}
	s.shared++
	s.thread = thread
	if s.shared < s.patience || now-s.moved < s.wait {
		return false
	}
	if now-s.moved > 16*s.wait {
		s.wait = minSeatWait
	} else {
		s.wait = min(2*s.wait, maxSeatWait)
	}
	s.shared, s.moved = 0, now
	return true
}
