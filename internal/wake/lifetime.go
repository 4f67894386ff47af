// Package wake lets one goroutine sleep on the descriptors of a link while others wake it or
// close the link.
//
// It owns the eventfd that ends a sleep and the count of calls in progress. It does not know
// what the descriptors are for.
package wake

import "sync/atomic"

// A Lifetime counts the calls in progress on a link. Close, which any goroutine may call,
// frees the link's descriptors after the last of them: if a descriptor were freed earlier, its
// number could already be another file's. Init comes first.
type Lifetime struct {
	state atomic.Int64 // number of calls in progress, and closedBit
	freed atomic.Bool
	done  chan struct{}
	free  func()
}

const closedBit = 1 << 62

// Init sets the function that frees the link, which is called once.
func (l *Lifetime) Init(free func()) { l.done, l.free = make(chan struct{}), free }

// Enter begins a call. It reports false if the link is closed.
func (l *Lifetime) Enter() bool {
	if l.state.Add(1)&closedBit == 0 {
		return true
	}
	l.Leave()
	return false
}

// Leave ends a call.
func (l *Lifetime) Leave() {
	if l.state.Add(-1) == closedBit && l.freed.CompareAndSwap(false, true) {
		l.free()
		close(l.done)
	}
}

// Closed reports whether Close was called.
func (l *Lifetime) Closed() bool { return l.state.Load()&closedBit != 0 }

// Close refuses further calls, runs interrupt to end those that block, and returns
// when all have left and the link is freed.
func (l *Lifetime) Close(interrupt func()) {
	for {
		old := l.state.Load()
		if old&closedBit != 0 {
			break
		}
		if l.state.CompareAndSwap(old, (old|closedBit)+1) {
			interrupt()
			l.Leave()
			break
		}
	}
	<-l.done
}
