package loop

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// chooseControl returns a net.Dialer's Control function that sets the congestion
// control, or nil for the system's default.
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
			return fmt.Errorf("set TCP's congestion control to %s: %w", name, err)
		}
		return nil
	}
}

// CheckControl returns an error unless the kernel has the congestion control.
func CheckControl(name string) error {
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
