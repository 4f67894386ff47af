// Package blocking is for goroutines that sleep in system calls again and again
// and never wait for anything that Go knows of.
package blocking

import (
	"runtime"
	"time"
)

// period is how often such a goroutine goes through Go's scheduler: more often
// than each 10 ms, which the scheduler lets a goroutine run.
const period = 4 * time.Millisecond

// Turns are a goroutine's turns in Go's scheduler.
//
// Go's monitor takes a goroutine that was not scheduled for 10 ms for one that
// runs away, though it slept in the kernel most of that time. It then takes the
// processor (the scheduler's P) from it whenever it sleeps, and looks for more
// of its kind every 70 µs, which takes a tenth of a processor and interrupts
// whoever polls.
type Turns struct{ last time.Duration }

// Take is called beside each system call that may sleep, at the time now.
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
