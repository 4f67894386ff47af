package coll

import "golang.org/x/sys/unix"

// yieldProcessor lets another thread run, of whatever process.
func yieldProcessor() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
