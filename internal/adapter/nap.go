package adapter

import (
	"context"
	"time"
)

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
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, l.link.Wake)()
	}
	h.napping.Store(true)
	if h.idle() && ctx.Err() == nil && !l.closing.Load() {
		l.wait(time.Duration(l.sleeping.Load()))
	}
	h.napping.Store(false)
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
