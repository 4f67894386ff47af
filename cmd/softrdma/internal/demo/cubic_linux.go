package demo

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// chooseCubic selects cubic as a socket's congestion control, if the kernel has it.
func chooseCubic(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") })
}
