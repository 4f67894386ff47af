package drive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A BlockingWait lets a waiter for events sleep in a link, one at a time.
type BlockingWait struct {
	mu    sync.Mutex // held by the waiter that sleeps
	alarm *alarm

	// The alarm stays registered with a context for the next wait with the same
	// context, so that waiting again allocates nothing.
	ends <-chan struct{}
	stop func() bool
}

// An alarm wakes a waiter that sleeps in a link, where no channel reaches it. It is an
// object of its own: a context that outlives a device holds no more of it.
type alarm struct{ in atomic.Pointer[Driver] }

func (a *alarm) ring() {
	if d := a.in.Load(); d != nil {
		d.waiter.Wake()
	}
}

// Events are what a BlockingWait waits for.
type Events interface {
	// Pending reports whether there is something to wake for.
	Pending() bool
}

// Init prepares the wait.
func (w *BlockingWait) Init() { w.alarm = &alarm{} }

// TryLock takes the wait if it is free, and reports whether it did.
func (w *BlockingWait) TryLock() bool { return w.mu.TryLock() }

// Unlock ends TryLock.
func (w *BlockingWait) Unlock() { w.mu.Unlock() }

// Wake wakes the caller that sleeps here.
func (w *BlockingWait) Wake() { w.alarm.ring() }

// Forget releases the last context. No waiter may sleep here afterwards.
func (w *BlockingWait) Forget() {
	w.mu.Lock()
	w.unwatch()
	w.mu.Unlock()
}

// watch lets the end of ctx ring the alarm. The caller has the wait.
func (w *BlockingWait) watch(ctx context.Context) {
	if ctx.Done() == w.ends {
		return
	}
	w.unwatch()
	if w.ends = ctx.Done(); w.ends != nil {
		w.stop = context.AfterFunc(ctx, w.alarm.ring)
	}
}

func (w *BlockingWait) unwatch() {
	if w.stop != nil {
		w.stop()
	}
	w.ends, w.stop = nil, nil
}

// Block lets a waiter for events, which owns w, sleep in the link instead of the worker.
// One waiter at a time can. Block returns false if another one does, or if a packet has woken the
// waiter while another goroutine polls: peers wake a sleeper with each message, and that would cost
// both of them much more than the message. The waiter is to wait elsewhere then. Block returns true
// when there may be an event or anything else that the waiter wants to look at.
func (d *Driver) Block(ctx context.Context, w *BlockingWait, e Events) bool {
	if d.manual || d.stopping.Load() || !d.blocked.CompareAndSwap(false, true) {
		return false
	}
	defer d.unblock()
	d.pauser.stop()
	if !d.sleep.TryLock() {
		d.waiter.Wake() // the worker sleeps: it is to leave
		d.sleep.Lock()
	}
	defer d.sleep.Unlock()
	d.mu.Lock()
	d.Progress()
	d.wakeAt.Store(int64(d.port.Next()))
	d.Unlock()
	w.watch(ctx)
	w.alarm.in.Store(d)
	began := d.clock()
	if !e.Pending() && ctx.Err() == nil && !d.stopping.Load() {
		d.wait(time.Duration(d.wakeAt.Load()))
	}
	w.alarm.in.Store(nil)
	d.wakeAt.Store(0)
	d.mu.Lock()
	d.Progress()
	d.Unlock()
	return e.Pending() || !d.polledSince(began)
}

// polledSince reports whether a goroutine polls that has done so since a waiter slept.
func (d *Driver) polledSince(began time.Duration) bool {
	last := time.Duration(d.polled.Load())
	return last > began && d.clock()-last < pollGrace
}

// unblock ends Block. The waiter will most probably poll or block again soon; if
// not, the worker comes by itself after a while, and sooner where others wait.
func (d *Driver) unblock() {
	now, pause := d.clock(), pollPause
	if d.waiting.Load() > 0 {
		pause = othersPause
		now -= pollGrace - othersPause // the grace ends with the pause
	}
	d.polled.Store(int64(now))
	d.blocked.Store(false)
	d.pauser.reset(pause)
}

// EnterWait counts a waiter that sleeps elsewhere while another one blocks in the
// link. The worker drives if that one has just left, and did not see this waiter.
func (d *Driver) EnterWait() {
	d.waiting.Add(1)
	if !d.blocked.Load() {
		d.Attend()
	}
}

// LeaveWait ends EnterWait.
func (d *Driver) LeaveWait() { d.waiting.Add(-1) }
