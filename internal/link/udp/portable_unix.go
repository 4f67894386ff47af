//go:build unix && (!linux || softrdma_portable)

package udp

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// errTooLong is never returned here: long datagrams are silently truncated.
var errTooLong = errors.New("datagram too long")

func setOption(c *net.UDPConn, level, option, value int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, failed)
}
