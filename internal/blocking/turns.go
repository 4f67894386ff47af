// Package blocking helps goroutines that repeatedly sleep in system calls without
// Go's scheduler noticing.
package blocking

import (
	"runtime"
	"time"
)

// period is the interval at which such a goroutine yields. It is shorter than the
// 10 ms after which Go's scheduler preempts a running goroutine.
const period = 4 * time.Millisecond

// Turns makes a goroutine yield to Go's scheduler regularly.
//
// Go's monitor thread treats a goroutine that was not scheduled for 10 ms as one
// that does not yield, even if it slept in the kernel most of that time. The monitor
// then retakes the goroutine's P whenever it sleeps, and checks every 70 µs, which
// takes a tenth of a processor and interrupts goroutines that poll.
type Turns struct{ last time.Duration }

// Take yields if the last yield was a period ago. The caller calls it at each
// system call that may sleep, with the current time.
func (t *Turns) Take(now time.Duration) {
	if t.due(now) {
		runtime.Gosched()
	}
}

func (t *Turns) due(now time.Duration) bool {
	if now-t.last < period {
		return false
	}
	t.last = now
	return true
}
