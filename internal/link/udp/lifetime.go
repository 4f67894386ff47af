package udp

import "sync/atomic"

// A lifetime counts the calls that are inside a link, so that Close, which any
// goroutine may call, frees the sockets' numbers only after the last of them:
// a number freed earlier could already be another file's.
type lifetime struct {
	state atomic.Int64 // calls inside, and the bit
	freed atomic.Bool
	done  chan struct{}
	free  func()
}

const closedBit = 1 << 62

func (l *lifetime) init(free func()) {
	l.done, l.free = make(chan struct{}), free
}

// enter begins a call; false says that the link is closed.
func (l *lifetime) enter() bool {
	if l.state.Add(1)&closedBit == 0 {
		return true
	}
	l.leave()
	return false
}

// leave ends a call.
func (l *lifetime) leave() {
	if l.state.Add(-1) == closedBit && l.freed.CompareAndSwap(false, true) {
		l.free()
		close(l.done)
	}
}

func (l *lifetime) closed() bool { return l.state.Load()&closedBit != 0 }

// close refuses further calls, runs interrupt to end those that block, and
// returns when all have left and everything is freed.
func (l *lifetime) close(interrupt func()) {
	for {
		old := l.state.Load()
		if old&closedBit != 0 {
			break
		}
		if l.state.CompareAndSwap(old, (old|closedBit)+1) {
			interrupt()
			l.leave()
			break
		}
	}
	<-l.done
}
