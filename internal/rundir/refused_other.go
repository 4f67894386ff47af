//go:build !windows

package rundir

import (
	"errors"
	"syscall"
)

// Refused reports whether the error of a connect says that no process listens on the socket.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
