// Package drive decides which goroutine makes a lane progress: which one holds its lock,
// polls it, sleeps for it, and is woken by whom. It owns a lane's lock, its worker
// goroutine and its sleep. What progress is belongs to the Port, which carries
// packets or streams; this package never looks at either.
//
// # Who drives
//
// The holder of the lane's lock drives it. Posters and pollers take it on their own
// goroutines, so that no hand-over stands between a packet and its completion. Two
// others drive when the program neither posts nor polls: the worker, which is the lane's own
// goroutine, and a blocked waiter, which sleeps for completion events in the
// worker's place, so that a packet wakes the waiter and no goroutine that then has
// to wake it.
//
//	poster     rings the doorbell: with the lock it sends at once, else the holder does (Unlock)
//	poller     Poll: receives without waiting
//	waiter     Block: sleeps in the link, one at a time; others wait elsewhere (EnterWait), and so
//	           does one that is woken while another goroutine polls
//	worker     Run: the states below
//
// # The sleep lock
//
// One goroutine at a time sleeps in the link: the one that holds the sleep lock,
// either the worker or the blocked waiter. Before it sleeps it stores the lane's
// next deadline (wakeAt) with the lane's lock held, and it wakes at that time, for
// a packet, or for Wake. A holder that makes the deadline earlier wakes it (Unlock).
//
// # The worker's states
//
//	            polled lately, or a waiter is blocked
//	   ┌────────────────────────────────────────────────────────┐
//	   │                                                        ▼
//	Working ──nothing to do for Spin──► Asleep               Paused
//	   ▲  ▲  ◄─packet, deadline, Wake───┘                       │
//	   │  └──────────────────resume, pause over─────────────────┘
//	   └──30 µs over── Coalescing ◄──nothing there, in a long stream── Working
//	                              ◄──packets came, polled lately──────
//
//	state       holds       left when                           moved by
//	Working     sleep lock  others drive                        worker, at the beginning of a round
//	                        nothing was done for Config.Spin    worker, at the end of one
//	Asleep      sleep lock  a packet or the deadline comes      the link
//	                        the deadline becomes earlier        the lane's last holder (Unlock)
//	                        the doorbell cannot be served       the lane's last holder (Unlock)
//	                        a waiter blocks                     that waiter (Block)
//	Coalescing  sleep lock  its time is over                    worker
//	Paused      nothing     pollers and waiters have gone       worker, when the pause is over
//	                        what was deferred waited for long   worker, which pauses briefly then (Defer)
//	                        the last poller waits elsewhere     that poller (Attend, EnterWait)
//	                        the waiter left and others wait     worker, when the pause is over
//	Stopped     nothing     never                               Stop, or a link that cannot wait
//
// The worker changes its state itself; others ask it to by Wake, by resume or by
// what it reads when a pause is over: the time of the last poll, and whether a waiter
// is blocked.
//
// # Why no wake-up is lost
//
// Work is left for a lane in one of two ways. With the lock held it shows in
// Port.Next, which Unlock compares with the sleeper's deadline. Without the lock it
// is announced by the Doorbell: the goroutine that rings tries the lock afterwards, and
// the lock's holder looks at the doorbell after it gave the lock up, so at least one of
// the two sees the other.
package drive

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ReceiveBudget is the maximum number of batches received in one round of progress,
	// so that a lane that always has packets to receive also sends.
	ReceiveBudget = 4

	// unlockBudget is the maximum number of times that one Unlock serves the doorbell.
	unlockBudget = 64

	// yieldAfter is the number of empty polls after which a poller yields its processor
	// to another thread, which may have to run before a packet can come.
	yieldAfter = 8

	// yieldExclusiveAfter replaces yieldAfter while no other thread waits for the processor.
	// It is longer than a peer that runs on another processor takes to answer: a poller
	// that yields in each round trip lets the kernel run whatever woke meanwhile.
	yieldExclusiveAfter = 64
)

// notPolled is a time long before the clock's beginning.
const notPolled = -int64(time.Hour)

// never is the deadline of a lane that waits for nothing.
const never = time.Duration(1<<63 - 1)

// A Port is the lane's side that a driver drives: its packets or streams. All methods are
// called with the lane's lock held. now is the clock's time.
type Port interface {
	// Serve takes what was left with the doorbell, and reports whether there was
	// something.
	Serve() bool

	// Receive takes one batch from the link, if there is one, and reports whether
	// there was. It returns the time after the batch came: the processor may have
	// been lost since now.
	Receive(now time.Duration) (after time.Duration, ok bool)

	// Act does the rest of a round: it acts on deadlines and sends. It reports whether
	// there was something to do.
	Act(now time.Duration) bool

	// Transmit lets the ready tasks send, and reports whether there were any.
	Transmit(now time.Duration) bool

	// Release completes what must be visible before another goroutine has the lock.
	Release()

	// Next is when the port wants to progress again without a packet: 0 for at
	// once, the highest time for never.
	Next() time.Duration

	// Overdue reports whether a deadline has passed. Next may be earlier than the
	// deadlines, because packets move them.
	Overdue(now time.Duration) bool

	// Asked reports whether a peer waits for a response that was not sent yet.
	Asked() bool

	// Failed is called once if the link cannot wait any more. The port is driven no longer.
	Failed(err error)
}

// A Waiter is the link's sleep.
type Waiter interface {
	// Wait blocks until something can be received, Wake is called or d has passed;
	// d < 0 means no limit. A Wake before the Wait makes it return at once.
	Wait(d time.Duration) error

	// Wake ends the present or the next Wait. Any goroutine may call it.
	Wake()
}

// A Config is what a driver is made of.
type Config struct {
	Port   Port
	Waiter Waiter

	// Clock is the device's monotonic time.
	Clock func() time.Duration

	// Spin is how long the worker looks for packets before it sleeps in the link; 0
	// sleeps at once.
	Spin time.Duration

	// Manual leaves out the worker: the caller drives by Progress.
	Manual bool

	// Kernel says that the link waits in the kernel, where time is not virtual.
	Kernel bool
}

// A Driver drives one lane. It is the lane's lock.
type Driver struct {
	port   Port
	waiter Waiter
	clock  func() time.Duration
	spin   time.Duration
	manual bool
	single bool // Go runs one goroutine at a time

	// mu is the lane's lock. Its holder owns the fields below.
	mu         sync.Mutex
	emptyPolls uint
	moderation moderation

	// Any goroutine's.
	Bell      Doorbell
	placement placement
	wakeAt    atomic.Int64  // when the sleeper wakes by itself; 0 if there is no sleeper
	polled    atomic.Int64  // when a caller polled last
	state     atomic.Uint32 // the worker's State; the worker stores it
	blocked   atomic.Bool   // a waiter sleeps in the link, or is about to
	waiting   atomic.Int32  // waiters that sleep elsewhere
	deferred  atomic.Bool   // something was left by Defer, perhaps long ago
	stopping  atomic.Bool
	stopped   chan struct{}

	// sleep is the sleep lock, held by the goroutine that sleeps in the link.
	sleep sync.Mutex
	turns turns // of its holder
	dozed turns // of the worker's brief pauses, in which it does not hold the lock

	pauser     pauser       // of the worker; stopped while a waiter is blocked
	postponeAt atomic.Int64 // when a poller is to postpone the end of the pause; may be never
	since      atomic.Int64 // when others began to drive, before the pause
	deferAt    atomic.Int64 // when Defer is to let the pause end soon; before, it does already
}

// Init prepares the driver. Run is the worker's to call, unless Config.Manual is set.
func (d *Driver) Init(c Config) {
	d.port, d.waiter, d.clock, d.spin, d.manual = c.Port, c.Waiter, c.Clock, c.Spin, c.Manual
	d.single = runtime.GOMAXPROCS(0) == 1
	d.polled.Store(notPolled)
	d.postponeAt.Store(int64(never))
	// If Go runs one goroutine at a time, its scheduler serves timers whenever the poller yields,
	// and looks at descriptors rarely.
	d.stopped, d.pauser = make(chan struct{}), newPauser(c.Kernel && !c.Manual && !d.single)
	if c.Manual {
		d.state.Store(uint32(Stopped))
		close(d.stopped)
	}
}

// Lock takes the lane.
func (d *Driver) Lock() { d.mu.Lock() }

// TryLock takes the lane if it is free, and reports whether it did.
func (d *Driver) TryLock() bool { return d.mu.TryLock() }

// Unlock gives the lane up. It wakes the sleeper if the lane's deadline became earlier,
// and serves doorbells that rang while the lane was held.
func (d *Driver) Unlock() {
	for round := 0; ; round++ {
		d.port.Release()
		next := d.port.Next()
		if at := d.wakeAt.Load(); at != 0 && int64(next) < at {
			d.wakeAt.Store(int64(next))
			d.waiter.Wake()
		}
		d.mu.Unlock()
		if !d.Bell.rung.Load() {
			return
		}
		if round == unlockBudget {
			d.waiter.Wake() // the sleeper continues
			return
		}
		if !d.mu.TryLock() {
			return
		}
		d.serve()
	}
}

// serve takes what was left with the doorbell and sends. The caller has the lane.
func (d *Driver) serve() {
	d.port.Serve()
	d.port.Transmit(d.clock())
}

// Barrier waits until the present holder of the lane has given it up: what was made
// invalid before is not in use after.
func (d *Driver) Barrier() {
	d.mu.Lock()
	d.Unlock()
}

// Sleeping reports whether a goroutine sleeps in the link. The caller has the lane.
func (d *Driver) Sleeping() bool { return d.wakeAt.Load() != 0 }

// Stopping reports whether Stop was called or the link has failed.
func (d *Driver) Stopping() bool { return d.stopping.Load() }

// Received notes that the link gave n bytes. The caller has the lane.
func (d *Driver) Received(n int) { d.moderation.add(n) }

// Progress runs one round: doorbell, packets in, deadlines, packets out. It reports
// whether there was anything to do. The caller has the lane.
func (d *Driver) Progress() bool {
	if d.stopping.Load() {
		return false
	}
	now, busy := d.receive(d.clock())
	return d.port.Act(now) || busy
}

// receive is the first half of a round: doorbell and packets in. It returns the time, and
// reports whether there was anything.
func (d *Driver) receive(now time.Duration) (after time.Duration, busy bool) {
	busy = d.port.Serve()
	for range ReceiveBudget {
		after, ok := d.port.Receive(now)
		if !ok {
			break
		}
		now, busy = after, true
	}
	return now, busy
}

// Stop ends the worker. Later holders of the lane no longer drive it.
func (d *Driver) Stop() {
	d.stopping.Store(true)
	d.waiter.Wake()
	d.resumeWorker()
	<-d.stopped
}

// wait sleeps in the link until the deadline. The caller has the sleep lock.
func (d *Driver) wait(deadline time.Duration) {
	timeout := time.Duration(-1)
	if deadline != never {
		timeout = max(deadline-d.clock(), 0)
	}
	err := d.waiter.Wait(timeout)
	d.turns.take(d.clock())
	if err != nil && !d.stopping.Swap(true) {
		d.mu.Lock()
		d.port.Failed(err)
		d.Unlock()
	}
}
