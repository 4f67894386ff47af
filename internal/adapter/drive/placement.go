package drive

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sharedYield and sharedFactor recognise a yield in which another thread ran: it took
	// at least sharedYield, and sharedFactor times as long as the shortest yield.
	sharedYield  = 3 * time.Microsecond
	sharedFactor = 4

	// newcomerLimit is the number of consecutive yields in which another thread may run
	// before a thread moves that has just come to the processor. Other threads may run
	// there only for a moment.
	newcomerLimit = 3

	// residentLimit is the same for the thread that was there first, plus a random number
	// below residentLimit: of two threads that take turns only one is to move.
	residentLimit = 6

	// minMoveWait and maxMoveWait bound how often a poller moves. The wait doubles when
	// moving did not help, and is reset after sixteen times as long.
	minMoveWait = time.Millisecond
	maxMoveWait = 128 * time.Millisecond
)

// A placement tracks whether a poller shares its processor with another thread. Go's
// monitor makes a goroutine that ran for 10 ms continue in another thread, which the
// system may wake where the peer polls. Both pollers then take turns, each round trip
// takes five times as long, and another processor is idle until the system balances its
// load some milliseconds later. A poller that notices this moves.
type placement struct {
	exclusive atomic.Bool // no other thread ran in the last yield

	mu       sync.Mutex    // held while a yield is noted; a yield that finds it held is not noted
	shortest time.Duration // yield
	thread   int           // that yielded last
	shared   int           // consecutive yields in which another thread ran
	limit    int           // of shared
	moved    time.Duration // when the poller moved last
	wait     time.Duration // until the next move
}

// yielded notes a yield of the thread, which took a time and ended now. It reports
// whether to look for another processor.
func (p *placement) yielded(thread int, took, now time.Duration) (move bool) {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	p.exclusive.Store(took < sharedYield)
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
