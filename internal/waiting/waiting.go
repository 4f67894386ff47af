// Package waiting decides how a call waits: how long it polls before it sleeps, which of several
// calls polls, and which of them it wakes. It does not know what they wait for, and starts no
// goroutine.
//
// A call that waits spins (polls), yields its processor, or sleeps:
//
//	waiter                       who may spin                  how long         between two looks
//	a device's goroutine         it, unless a caller polls     the device's     yields
//	verbs.CQ.Wait                one call for each device      the device's     yields to goroutines
//	rdmanet.Conn                 one call for each device      Options.Spin     yields to goroutines
//	msg.Worker                   each call                     the device's     gives up the lock
//	rpc                          the leader of a Group         the device's     yields to goroutines
//	coll, in a host's memory     each member                   4,096 looks      yields the processor
//	a program under exec         each thread that waits        20 µs, or more   receives
//
// Where one call spins for a device, it holds the device's Turn and receives for the others, which
// sleep. A Spin measures how long. A Group is for several calls that wait for one completion queue.
//
// The device's goroutine is internal/adapter/drive, and exec's library is preload/src/engine.c. Both
// use these words but not this package. The first spins over many rounds of work, each with its
// deadline, and reads the device's clock, which may be virtual, once a round; a Spin belongs to one
// call and reads the system's. The second is in C.
package waiting

import (
	"sync/atomic"
	"time"
)

// A Spin is the polling of one call before it sleeps. Its time begins when it first reads the clock.
type Spin struct {
	For   time.Duration // how long to poll; 0 or less means not at all
	Every int           // how many looks to take for each reading of the clock, at least 1

	looks int
	began time.Time
}

// More reports whether the call may look once more before it sleeps.
func (s *Spin) More() bool {
	if s.For <= 0 {
		return false
	}
	if s.looks++; !s.timed() {
		return true
	}
	if s.began.IsZero() {
		s.began = time.Now()
		return true
	}
	return time.Since(s.began) < s.For
}

// timed reports whether More read the clock for this look.
func (s *Spin) timed() bool { return s.looks%s.Every == 0 }

// A Turn lets one call at a time spin for a device.
type Turn struct{ taken atomic.Bool }

// Take takes the turn, and reports whether it was free.
func (t *Turn) Take() bool { return t.taken.CompareAndSwap(false, true) }

// Give gives the turn back.
func (t *Turn) Give() { t.taken.Store(false) }
