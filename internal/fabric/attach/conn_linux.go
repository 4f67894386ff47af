package attach

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/unixmsg"
)

// A Conn is a connection between a program and a fabric.
type Conn struct {
	*unixmsg.Conn
	place Place
	relay <-chan struct{} // closed when the relay to another host has ended; nil without one
}

// NewConn takes over a connection.
func NewConn(c *net.UnixConn) *Conn { return &Conn{Conn: unixmsg.NewConn(c, &Protocol)} }

// SendBell sends a message with a bell for the other side, behind other descriptors.
func (c *Conn) SendBell(message []byte, bell *hostmem.Bell, fds ...int) error {
	if !OtherUser(c) {
		return c.Send(message, append(fds, bell.FD())...)
	}
	fd, err := bell.ForOther()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return c.Send(message, append(fds, fd)...)
}

// OtherUser reports whether the process at the other end is another user's.
func OtherUser(c *Conn) bool {
	_, uid := c.Peer()
	return uid != uint32(os.Geteuid())
}
