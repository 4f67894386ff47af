package rundir

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Refused reports whether the error of a connect says that no process listens on the socket.
func Refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
