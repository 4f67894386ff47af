package bench

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// chooseControl chooses a TCP socket's congestion control; "" leaves the choice
// to the system.
func chooseControl(name string) func(_, _ string, c syscall.RawConn) error {
	if name == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) })
		if e != nil {
			return e
		}
		if err != nil {
			return fmt.Errorf("TCP's congestion control %s: %w", name, err)
		}
		return nil
	}
}

// lackControl tells whether the kernel has a congestion control for TCP.
func lackControl(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("TCP socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("this kernel's TCP has no congestion control %s (Linux: modprobe tcp_%s)", name, name)
	}
	return nil
}
