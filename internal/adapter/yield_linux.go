package adapter

import "golang.org/x/sys/unix"

// yield offers the processor to another thread: the one that holds the lane,
// or the peer's where both poll on the same processor.
func yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
