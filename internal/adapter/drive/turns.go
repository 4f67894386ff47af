package drive

import (
	"runtime"
	"time"
)

// turnPeriod is the interval at which a goroutine that repeatedly sleeps in system calls
// yields. It is shorter than the 10 ms after which Go's scheduler preempts a running
// goroutine.
const turnPeriod = 4 * time.Millisecond

// turns makes such a goroutine yield to Go's scheduler regularly.
//
// Go's monitor thread treats a goroutine that was not scheduled for 10 ms as one
// that does not yield, even if it slept in the kernel most of that time. The monitor
// then retakes the goroutine's P whenever it sleeps, and checks every 70 µs, which
// takes a tenth of a processor and interrupts goroutines that poll.
type turns struct{ last time.Duration }

// take yields if the last yield was a period ago. The caller calls it at each
// system call that may sleep, with the current time.
func (t *turns) take(now time.Duration) {
	if t.due(now) {
		runtime.Gosched()
	}
}

func (t *turns) due(now time.Duration) bool {
	if now-t.last < turnPeriod {
		return false
	}
	t.last = now
	return true
}
