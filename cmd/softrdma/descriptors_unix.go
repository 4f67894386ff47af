//go:build unix

package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// checkDescriptors returns an error if the process may not open the two descriptors that Go's
// runtime takes with the first timer. Without them it ends with a trace. Nothing of ours that is
// initialized before main may need a timer or random numbers.
func checkDescriptors() error {
	var free [2]int
	err := syscall.Pipe(free[:])
	if err == nil {
		err = errors.Join(syscall.Close(free[0]), syscall.Close(free[1]))
		time.AfterFunc(time.Hour, func() {}).Stop() // the runtime takes them now
		return err
	}
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) // 0 then
	return fmt.Errorf("no file descriptors are left: expected at least 2 free ones, with a limit (ulimit -n) of %d: %w; raise the limit, or close what the process inherits", limit.Cur, err)
}
