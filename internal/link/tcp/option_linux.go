package tcp

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent data may stay unacknowledged.
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = userTimeout(int(fd), d) }); e != nil {
		return e
	}
	return err
}

func userTimeout(fd int, d time.Duration) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds())))
}

// setCongestion chooses the congestion control of a connection, or of all that a listener accepts.
func setCongestion(c syscall.Conn, name string) error {
	if name == "" {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = congestion(int(fd), name) }); e != nil {
		return e
	}
	return err
}

func congestion(fd int, name string) error {
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	switch err {
	case nil:
		return nil
	case unix.ENOENT, unix.EPERM: // not there, or only for CAP_NET_ADMIN (tcp(7))
		allowed, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
		return fmt.Errorf("TCP congestion control: expected one of %q, found %q", strings.Fields(string(allowed)), name)
	}
	return os.NewSyscallError("setsockopt", err)
}

// set sets the options of a socket.
func (s Silence) set(fd int) error {
	if s.Count == 0 {
		return nil
	}
	for _, o := range [...]struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(s.Idle.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(s.Interval.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, s.Count},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return userTimeout(fd, s.Timeout)
}
