package tcp

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// reuseAddress does nothing: ports of ended connections are free.
func reuseAddress(_, _ string, _ syscall.RawConn) error { return nil }

// segmentOf returns 0: the system does not report it.
func segmentOf(*net.TCPConn) int { return 0 }

// tcpMaxRT is TCP_MAXRT of ws2ipdef.h: the time of retransmissions, in seconds.
const tcpMaxRT = 5

// setUserTimeout bounds how long sent data may stay unacknowledged. If the system refuses it, its limit of
// retransmissions applies.
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		_ = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_TCP, tcpMaxRT, wholeSeconds(d))
	})
}
