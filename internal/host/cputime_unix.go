//go:build unix

package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the user and system CPU time that this process has used.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
