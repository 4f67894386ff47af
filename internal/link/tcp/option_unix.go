//go:build unix

package tcp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// reuseAddress lets a connection share its port with a connection to another peer, or one that
// has just ended.
func reuseAddress(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); e != nil {
		return e
	}
	return err
}

// segmentOf returns TCP's maximum segment size, or 0.
func segmentOf(c *net.TCPConn) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	if err != nil {
		return 0
	}
	return n
}
