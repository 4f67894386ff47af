//go:build unix

package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time that this process has used so far, its own
// and the kernel's on its behalf.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// yield gives the processor to another process: with a single one, polling
// would keep the peer from answering.
func yield() { runtime.Gosched(); schedYield() }
