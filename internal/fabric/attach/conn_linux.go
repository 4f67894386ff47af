package attach

import (
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// maxRights is the number of descriptors of a message.
const maxRights = 2

// A Conn is a connection between a program and a fabric. One goroutine at a time receives.
type Conn struct {
	*net.UnixConn
	in  [MaxMessage]byte
	oob [256]byte

	mu sync.Mutex // of Send

	relay <-chan struct{} // closed when the relay to another host has ended; nil without one
}

// NewConn takes over a connection.
func NewConn(c *net.UnixConn) *Conn { return &Conn{UnixConn: c} }

// Receive waits for the next message, valid until the next call. The descriptors are the
// caller's.
func (c *Conn) Receive() (message []byte, fds []int, err error) {
	n, on, flags, _, err := c.ReadMsgUnix(c.in[:], c.oob[:])
	if err != nil {
		return nil, nil, err
	}
	fds = rights(c.oob[:on])
	switch {
	case n == 0:
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(fds) > maxRights:
		err = malformed(MaxMessage, uint64(n))
	default:
		return c.in[:n], fds, nil
	}
	CloseAll(fds)
	return nil, nil, err
}

// Send sends a message with descriptors, which stay open. Any goroutine may call it. It waits
// while the other side does not read.
func (c *Conn) Send(message []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _, err := c.WriteMsgUnix(message, oob, nil)
	return err
}

// TrySend sends a message if the other side has room for it, and reports whether it did. It never
// waits, not even for another goroutine that sends.
func (c *Conn) TrySend(message []byte) (sent bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		sent = unix.Sendto(int(fd), message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) == nil
	})
	return sent && err == nil
}

// Peer returns the process at the other end.
func (c *Conn) Peer() (pid int, uid uint32) {
	uid = ^uint32(0)
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, uid
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid, uid = int(cred.Pid), cred.Uid
		}
	})
	return pid, uid
}

// HungUp reports whether the other end is closed, though messages of it may wait to be received.
func (c *Conn) HungUp() (yes bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, _ = unix.Poll(p, 0)
		yes = p[0].Revents != 0
	})
	return yes || err != nil
}

// rights returns all descriptors of control messages.
func rights(oob []byte) (fds []int) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range list {
		if got, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Expect is Receive for a message of one kind with a number of descriptors. What the other
// side refuses is an error.
func (c *Conn) Expect(k Kind, descriptors int) (message []byte, fds []int, err error) {
	message, fds, err = c.Receive()
	switch {
	case err != nil:
		return nil, nil, err
	case Kind(message[0]) == Refused:
		var r RefusedBody
		if err = ParseJSON(message, &r); err == nil {
			err = r.Err()
		}
	case Kind(message[0]) != k:
		err = malformed(uint64(k), uint64(message[0]))
	case len(fds) != descriptors:
		err = malformed(uint64(descriptors), uint64(len(fds)))
	default:
		return message, fds, nil
	}
	CloseAll(fds)
	return nil, nil, err
}
