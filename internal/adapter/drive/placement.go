package drive

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// sharedYield and sharedFactor tell a yield in which another thread ran: it took so
	// long, and so many times as long as the shortest one.
	sharedYield  = 3 * time.Microsecond
	sharedFactor = 4

	// newcomerLimit is the number of yields in a row in which another thread may run
	// before a thread moves that just came to the processor: others come for a moment.
	newcomerLimit = 3

	// residentLimit is the same for the thread that was there first, and up to as many
	// again, by chance: of two that take turns only one is to move.
	residentLimit = 6

	// minMoveWait and maxMoveWait bound how often a poller moves. The wait doubles
	// where moving did not help, and is forgotten after sixteen times as long.
	minMoveWait = time.Millisecond
	maxMoveWait = 128 * time.Millisecond
)

// A placement is what a poller knows of its processor: whether it has it alone. Go's
// monitor has a goroutine that ran for 10 ms go on in another thread, which the
// system may wake where the peer polls. They then take turns, each round trip
// takes five times as long, and another processor has nothing to do until the
// system balances its load some milliseconds later. A poller that notices moves.
type placement struct {
	mu       sync.Mutex // held while a yield is noted; who finds it taken notes nothing
	shortest time.Duration
	thread   int // that yielded last
	shared   int // yields in a row in which another thread ran
	limit    int // of shared
	moved    time.Duration
	wait     time.Duration // until the next move
}

// yielded notes a yield of the thread that took so long until now, and reports
// whether to look for another processor.
func (p *placement) yielded(thread int, took, now time.Duration) (move bool) {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	if p.shortest == 0 || took < p.shortest {
		p.shortest = took
	}
	if took < max(sharedYield, sharedFactor*p.shortest) {
		p.shared = 0
		p.thread = thread
		return false
	}
	if p.shared == 0 {
		p.limit = residentLimit + rand.IntN(residentLimit)
		if thread != p.thread {
			p.limit = newcomerLimit
		}
	}
	p.shared++
	p.thread = thread
	if p.shared < p.limit || now-p.moved < p.wait {
		return false
	}
	if now-p.moved > 16*p.wait {
		p.wait = minMoveWait
	} else {
		p.wait = min(2*p.wait, maxMoveWait)
	}
	p.shared, p.moved = 0, now
	return true
}
