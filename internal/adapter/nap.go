package adapter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A nest is where a waiter for a channel's events sleeps in a link, one at a
// time.
type nest struct {
	mu    sync.Mutex // held by who sleeps
	alarm *alarm

	// What rings the alarm when a context ends stays set for the next wait with
	// that context, so that waiting again costs no memory.
	ends <-chan struct{}
	stop func() bool
}

// An alarm wakes who sleeps in a link, where no channel reaches it. It is an
// object of its own: a context that outlives a device holds no more of it.
type alarm struct{ in atomic.Pointer[lane] }

func (a *alarm) ring() {
	if l := a.in.Load(); l != nil {
		l.link.Wake()
	}
}

// watch lets the end of ctx ring the alarm. The caller has the nest.
func (n *nest) watch(ctx context.Context) {
	if ctx.Done() == n.ends {
		return
	}
	n.unwatch()
	if n.ends = ctx.Done(); n.ends != nil {
		n.stop = context.AfterFunc(ctx, n.alarm.ring)
	}
}

func (n *nest) unwatch() {
	if n.stop != nil {
		n.stop()
	}
	n.ends, n.stop = nil, nil
}

// leave forgets the context: nobody will sleep here any more.
func (n *nest) leave() {
	n.mu.Lock()
	n.unwatch()
	n.mu.Unlock()
}

// nap lets a waiter for the channel's events sleep in the link of one of the
// lanes that they come from, as far as nobody else does; the others' goroutines
// work meanwhile.
func (h *Channel) nap(ctx context.Context) bool {
	if !h.nest.mu.TryLock() {
		return false
	}
	defer h.nest.mu.Unlock()
	if h.ended() {
		return true // and nobody watches its contexts any more
	}
	sources := h.sources()
	for s := sources; s != 0; {
		l := s.next(h.dev)
		for others := sources &^ l.bit(); others != 0; {
			others.next(h.dev).attend()
		}
		if l.nap(ctx, h) {
			return true
		}
	}
	return false
}

// nap lets a waiter for the channel's events sleep in the kernel in place of
// the lane's goroutine: what it waits for then comes to it directly, instead of
// to a goroutine that has to wake it. One waiter at a time can. It tells false
// where another one does; true when there may be an event, or anything else
// that the waiter wants to look at.
func (l *lane) nap(ctx context.Context, h *Channel) bool {
	if l.dev.cfg.Manual || l.closing.Load() || !l.napping.CompareAndSwap(false, true) {
		return false
	}
	defer l.rise()
	l.pauseTimer.Stop()
	if !l.bed.TryLock() {
		l.link.Wake() // the lane's goroutine sleeps there: it is to leave
		l.bed.Lock()
	}
	defer l.bed.Unlock()
	l.mu.Lock()
	l.progress()
	l.sleeping.Store(int64(l.next()))
	l.unlock()
	h.nest.watch(ctx)
	h.nest.alarm.in.Store(l)
	if h.idle() && ctx.Err() == nil && !l.closing.Load() {
		l.wait(time.Duration(l.sleeping.Load()))
	}
	h.nest.alarm.in.Store(nil)
	l.sleeping.Store(0)
	l.mu.Lock()
	l.progress()
	l.unlock()
	return true
}

// rise ends a nap. Whoever napped will most probably poll or nap again soon; if
// not, the lane's goroutine comes by itself after a while, and at once where
// others wait.
func (l *lane) rise() {
	l.polled.Store(int64(l.dev.clock()))
	l.napping.Store(false)
	if l.waiting.Load() > 0 {
		l.attend()
		return
	}
	l.pauseTimer.Reset(pollPause)
}
