// Package waiting decides how a call waits: how long it polls before it sleeps, which of several
// calls polls, and which of them it wakes. It does not know what they wait for, and starts no
// goroutine.
//
// A call that waits spins (polls), yields its processor, or sleeps:
//
//	waiter                       who may spin                  how long         between two looks
//	a device's goroutine         it, unless a caller polls     the device's     yields
//	verbs.CQ.Wait                one call for each device      the device's     seldom yields to goroutines
//	rdmanet.Conn                 one call for each device      Options.Spin     yields to goroutines
//	msg.Worker                   each call                     the device's     gives up the lock
//	rpc                          the leader of a Group         the device's     yields to goroutines
//	coll, in a host's memory     each member                   4,096 looks      yields the processor
//	a program under exec         each thread that waits        20 µs, or more   receives
//
// The time of verbs.CQ.Wait is up to five times as long while its sleeps are short and its peer is on
// the same host: see Adaptive. Over a network, packets that gather during a sleep cost less.
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
	"runtime"
	"sync/atomic"
	"time"
)

// firstYield is how long a Spin looks before it yields to other goroutines. Then it looks twice as
// long each time.
const firstYield = 10 * time.Microsecond

// A Spin is the polling of one call before it sleeps. Its time begins when it first reads the clock.
type Spin struct {
	For   time.Duration // how long to poll; 0 or less means not at all
	Every int           // how many looks to take for each reading of the clock, at least 1

	looks   int
	began   time.Time
	spent   time.Duration // when More read the clock last
	yielded time.Duration // when Yield yielded last
	procs   int           // goroutines that Go runs at a time, 0 before the first Yield
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
	s.spent = time.Since(s.began)
	return s.spent < s.For
}

// Yield lets other goroutines run, but seldom. While Go has an idle processor, runtime.Gosched wakes
// a thread, which looks for goroutines there and takes the processor from a peer that polls. It may
// take this goroutine, too, which then continues as late as one that has slept. Goroutines that become
// ready get such a thread anyway. If Go runs one goroutine at a time, there is no idle processor,
// and Yield always yields.
func (s *Spin) Yield() {
	if s.procs == 0 { // once: it takes the lock of Go's scheduler
		s.procs = runtime.GOMAXPROCS(0)
	}
	if s.spent < max(2*s.yielded, firstYield) && s.procs > 1 {
		return
	}
	s.yielded = s.spent
	runtime.Gosched()
}

// timed reports whether More read the clock for this look.
func (s *Spin) timed() bool { return s.looks%s.Every == 0 }

// A Turn lets one call at a time spin for a device.
type Turn struct{ taken atomic.Bool }

// Take takes the turn, and reports whether it was free.
func (t *Turn) Take() bool { return t.taken.CompareAndSwap(false, true) }

// Give gives the turn back.
func (t *Turn) Give() { t.taken.Store(false) }

// longest is how many times its usual time a call polls, at most, while sleeps are short.
const longest = 5

// An Adaptive is how long the calls that wait for one queue poll. If two ends work in turn and both
// sleep, each message costs the time to wake a thread, which is longer than their work: neither finds
// anything while it polls, and both sleep again. So calls poll for longer while their sleeps are
// short, as the halt polling of KVM does. The zero value is ready for use.
type Adaptive struct{ more atomic.Int64 }

// Spin returns the polling of a call whose usual time is given.
func (a *Adaptive) Spin(usual time.Duration, every int) Spin {
	if usual > 0 {
		usual += time.Duration(a.more.Load())
	}
	return Spin{For: usual, Every: every}
}

// Slept notes how long a call slept that usually polls for a time.
func (a *Adaptive) Slept(d, usual time.Duration) {
	limit := longest * usual
	if d >= limit {
		a.more.Store(0)
		return
	}
	a.more.Store(int64(min(2*time.Duration(a.more.Load())+usual, limit-usual)))
}
