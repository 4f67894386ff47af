package adapter

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// yield offers the processor to another thread: the one that holds the lane,
// or the peer's where both poll on the same processor. Where Go runs one
// goroutine at a time, others of this process get it too; elsewhere they have
// threads of their own, and going through Go's scheduler costs a poller
// microseconds.
func (l *lane) yield() {
	if l.single {
		runtime.Gosched()
	}
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
