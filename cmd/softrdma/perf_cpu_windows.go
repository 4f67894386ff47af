package main

import (
	"time"

	"golang.org/x/sys/windows"
)

// cpuTime is the processor time that this process has used so far, its own
// and the kernel's on its behalf.
func cpuTime() time.Duration {
	var creation, exit, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &creation, &exit, &kernel, &user) != nil {
		return 0
	}
	// These two are durations in units of 100 ns, not points in time.
	return 100 * (ticks(kernel) + ticks(user))
}

func ticks(t windows.Filetime) time.Duration {
	return time.Duration(t.HighDateTime)<<32 | time.Duration(t.LowDateTime)
}

// yield gives the processor to another process.
func yield() { schedYield() }
