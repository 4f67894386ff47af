package live

import (
	"runtime"
	"time"
)

const (
	// lingerTime is how long the loop looks for packets before it sleeps: about as long as to
	// sleep and to be woken takes. Two programs that wait for each other's messages answer
	// within that time. It is short because programs may poll on all processors.
	lingerTime = 5 * time.Microsecond

	// turnPeriod is the interval at which the loop yields to Go's scheduler. Go's monitor takes
	// a goroutine that was not scheduled for 10 ms for one that does not yield, even if it
	// slept in the kernel, and then looks at it every 20 µs.
	turnPeriod = 4 * time.Millisecond
)

// A linger tells when a loop has found nothing for a while.
type linger struct {
	idle   bool
	since  time.Duration // when the first look found nothing
	turned time.Duration // when the loop yielded last
}

// over reports whether to sleep after a look at a time, which found something or not.
func (l *linger) over(busy bool, now time.Duration) bool {
	if busy || !l.idle {
		l.idle, l.since = !busy, now
	}
	return !busy && now-l.since >= lingerTime
}

// turn reports whether the loop has to yield.
func (l *linger) turn(now time.Duration) bool {
	if now-l.turned < turnPeriod {
		return false
	}
	l.turned = now
	return true
}

// rest sleeps, if a look has found nothing for long enough.
func (f *Fabric) rest(busy bool) {
	now := f.now()
	if f.linger.turn(now) {
		runtime.Gosched()
	}
	if len(f.hot) == 0 && !busy || f.linger.over(busy, now) {
		f.sleep()
	}
}
