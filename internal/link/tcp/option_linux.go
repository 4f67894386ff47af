package tcp

import (
	"net"
	"os"
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

// set sets the options of a socket.
func (s silence) set(fd int) error {
	if s.count == 0 {
		return nil
	}
	for _, o := range [...]struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(s.idle.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(s.interval.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, s.count},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return userTimeout(fd, s.timeout)
}
