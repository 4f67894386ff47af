package host

import (
	"time"

	"golang.org/x/sys/windows"
)

// CPUTime returns the user and kernel CPU time that this process has used.
func CPUTime() time.Duration {
	var creation, exit, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &creation, &exit, &kernel, &user) != nil {
		return 0
	}
	// kernel and user are durations in units of 100 ns, not points in time.
	return 100 * (ticks(kernel) + ticks(user))
}

func ticks(t windows.Filetime) time.Duration {
	return time.Duration(t.HighDateTime)<<32 | time.Duration(t.LowDateTime)
}
