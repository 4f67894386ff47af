package adapter

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// yield offers the processor to another goroutine of this process, which with a
// single processor may be the one that holds the lane, and to another thread,
// which may be the peer's.
func yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
