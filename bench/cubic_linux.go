package bench

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// chooseCubic chooses a socket's congestion control.
func chooseCubic(_, _ string, c syscall.RawConn) (err error) {
	e := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") })
	if e != nil {
		return e
	}
	return err
}
