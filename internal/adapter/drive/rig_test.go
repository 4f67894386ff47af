package drive

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

// A link is the Waiter of the tests.
type link struct {
	wake  chan struct{}
	waits atomic.Int32
	fails atomic.Bool
}

func (l *link) Wait(d time.Duration) error {
	l.waits.Add(1)
	if d < 0 {
		<-l.wake
	} else if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-l.wake:
		case <-t.C:
		}
	}
	if l.fails.Load() {
		return errBroken
	}
	return nil
}

func (l *link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// A port counts what the driver asks of it. Packets come by arrive, work by post.
type port struct {
	rig *rig

	mu     sync.Mutex // the "network": what has arrived, and who is told of it
	here   int        // batches that have come
	events chan struct{}

	posted int // left with the doorbell, and guarded by it

	answer func() // called when the lane is given up after a batch was received, if not nil

	// The lane's:
	deadline time.Duration
	moves    time.Duration // where a batch moves the deadline, 0 for not
	ready    int           // served, but not sent
	asked    bool          // by what came, for what is ready
	counts
}

// counts are what a port was asked for.
type counts struct {
	rounds   int
	received int
	sent     int
	expired  int
	failed   error
}

func (p *port) Serve() bool {
	if !p.rig.Bell.Rung() {
		return false
	}
	p.rig.Bell.Lock()
	p.ready += p.posted
	p.posted = 0
	p.rig.Bell.Answer()
	p.rig.Bell.Unlock()
	return true
}

func (p *port) Receive(now time.Duration) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here == 0 {
		return now, false
	}
	p.here--
	p.received++
	if p.moves != 0 {
		p.deadline = p.moves
	}
	select {
	case p.events <- struct{}{}:
	default:
	}
	p.rig.events.Wake()
	return now, true
}

func (p *port) Act(now time.Duration) bool {
	p.rounds++
	if p.deadline <= now {
		p.deadline = never
		p.expired++
		p.ready++
	}
	return p.Transmit(now)
}

func (p *port) Transmit(time.Duration) bool {
	n := p.ready
	p.sent += n
	p.ready = 0
	return n > 0
}

func (p *port) Release() {
	if p.answer != nil && p.received > 0 {
		p.answer()
		p.answer = nil
	}
}

func (p *port) Next() time.Duration {
	if p.ready > 0 {
		return 0
	}
	return p.deadline
}

func (p *port) Overdue(now time.Duration) bool { return p.deadline <= now }

func (p *port) Asked() bool { return p.asked }

func (p *port) Failed(err error) { p.failed = err }

// Pending implements Events: a packet is an event.
func (p *port) Pending() bool { return len(p.events) > 0 }

// A rig is a driver with its worker, on virtual time.
type rig struct {
	*Driver
	t      *testing.T
	port   *port
	link   *link
	events BlockingWait
	epoch  time.Time
	looks  atomic.Int64 // at the clock, where each takes a microsecond
	slow   bool         // they do: a worker that spins does not sleep
}

func newRig(t *testing.T, c Config) *rig {
	r := &rig{Driver: &Driver{}, t: t, link: &link{wake: make(chan struct{}, 1)}, epoch: time.Now(), slow: c.Spin > 0}
	r.port = &port{rig: r, deadline: never, events: make(chan struct{}, 1)}
	r.events.Init()
	c.Port, c.Waiter, c.Clock = r.port, r.link, r.now
	r.Init(c)
	return r
}

// run runs f with a driver in a bubble of virtual time, and stops the driver.
func run(t *testing.T, spin time.Duration, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Spin: spin})
		go r.Run()
		defer func() {
			r.Stop()
			r.expect(Stopped)
		}()
		f(t, r)
	})
}

func (r *rig) now() time.Duration {
	now := time.Since(r.epoch)
	if r.slow {
		now += time.Duration(r.looks.Add(1)) * time.Microsecond
	}
	return now
}

// arrive lets a batch come from the network, which wakes the goroutine that sleeps in the link.
func (r *rig) arrive() {
	r.port.mu.Lock()
	r.port.here++
	r.port.mu.Unlock()
	r.link.Wake()
}

// post is what posting a work request is.
func (r *rig) post() {
	if r.TryLock() {
		r.port.ready++
		r.port.Transmit(r.now())
		r.Unlock()
		return
	}
	r.leave()
	r.ServeDoorbell()
}

// leave leaves something with the doorbell.
func (r *rig) leave() {
	r.Bell.Lock()
	r.port.posted++
	r.Bell.Ring()
	r.Bell.Unlock()
}

// with runs f with the lane held.
func (r *rig) with(f func(p *port)) {
	r.Lock()
	f(r.port)
	r.Unlock()
}

// seen returns what the port was asked for until now. It takes the lane as a
// goroutine does that leaves nothing behind, so that it moves nothing.
func (r *rig) seen() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.port.counts
}

// block is a blocking wait for the port's events.
func (r *rig) block(w *BlockingWait) bool {
	if !w.TryLock() {
		return false
	}
	defer w.Unlock()
	return r.Block(r.t.Context(), w, r.port)
}

// expect checks the worker's state when nothing moves any more at this moment.
func (r *rig) expect(want State) {
	r.t.Helper()
	synctest.Wait()
	if s := r.State(); s != want {
		r.t.Fatalf("the worker is %v, expected %v", s, want)
	}
}
