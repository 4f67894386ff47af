package unixmsg

import (
	"cmp"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/wake"
)

// A Conn is a connection that speaks a protocol. One goroutine at a time receives.
type Conn struct {
	*net.UnixConn
	protocol *Protocol
	in, oob  []byte

	mu sync.Mutex // of Send

	fd    int           // after LeavePoller, otherwise -1
	calls wake.Lifetime // that use fd

	closing   sync.Mutex // of LeavePoller and Close
	closed    bool
	inherited int // descriptor in the list of package inherit; -1 if there is none
}

// NewConn takes over a connection. One more descriptor than the protocol allows
// tells a message with too many from a process that can open no more.
func NewConn(c *net.UnixConn, p *Protocol) *Conn {
	return &Conn{UnixConn: c, protocol: p, in: make([]byte, p.MaxMessage), oob: make([]byte, unix.CmsgSpace(4*(p.MaxDescriptors+1))), fd: -1, inherited: -1}
}

// LeavePoller makes calls wait on a thread (wake.LeavePoller), unless there are many connections. Other calls
// than Close come after it. Deadlines have no effect on them.
func (c *Conn) LeavePoller() {
	fd, err := wake.LeavePoller(c.UnixConn)
	if err != nil {
		return
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		wake.CloseDescriptor(fd)
		return
	}
	c.fd = fd
	c.calls.Init(func() { wake.CloseDescriptor(fd) })
	_ = c.UnixConn.Close() // fd keeps the connection open
}

// CloseInChildren makes children that the program forks close the connection. It comes after
// LeavePoller.
func (c *Conn) CloseInChildren() {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return
	}
	_ = c.do(func(fd int) error {
		c.inherited = fd
		inherit.Add(fd)
		return nil
	})
}

// Close ends the connection, and the calls that wait on it.
func (c *Conn) Close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.closed = true
	if c.inherited >= 0 {
		inherit.Remove(c.inherited)
		c.inherited = -1
	}
	if c.fd < 0 {
		return c.UnixConn.Close()
	}
	c.calls.Close(func() { _ = unix.Shutdown(c.fd, unix.SHUT_RDWR) })
	return nil
}

// do calls f with the descriptor. f may only wait after LeavePoller.
func (c *Conn) do(f func(fd int) error) (err error) {
	again := func(fd int) {
		for err = f(fd); err == unix.EINTR; err = f(fd) {
		}
	}
	if c.fd < 0 {
		raw, e := c.SyscallConn()
		if e == nil {
			e = raw.Control(func(fd uintptr) { again(int(fd)) })
		}
		return cmp.Or(e, err)
	}
	if !c.calls.Enter() {
		return net.ErrClosed
	}
	defer c.calls.Leave()
	again(c.fd)
	return err
}

// Receive waits for the next message, valid until the next call. The descriptors are the
// caller's. Without an error the message has a kind.
func (c *Conn) Receive() (message []byte, fds Descriptors, err error) {
	var n, on, flags int
	if c.fd < 0 {
		n, on, flags, _, err = c.ReadMsgUnix(c.in, c.oob)
	} else {
		err = c.do(func(fd int) (err error) {
			n, on, flags, _, err = unix.Recvmsg(fd, c.in, c.oob, unix.MSG_CMSG_CLOEXEC)
			return err
		})
	}
	if err != nil {
		return nil, nil, err
	}
	fds, _ = fds.Append(c.oob[:on])
	switch p := c.protocol; {
	case n == 0:
		err = io.EOF
	case flags&unix.MSG_TRUNC != 0:
		err = p.Malformed(uint64(p.MaxMessage), uint64(n)+1)
	case len(fds) > p.MaxDescriptors:
		err = p.Malformed(uint64(p.MaxDescriptors), uint64(len(fds)))
	case flags&unix.MSG_CTRUNC != 0:
		err = unix.EMFILE // this process has reached its limit of descriptors
	default:
		return c.in[:n], fds, nil
	}
	fds.Close()
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
	if c.fd < 0 {
		_, _, err := c.WriteMsgUnix(message, oob, nil)
		return err
	}
	return c.do(func(fd int) error { return unix.Sendmsg(fd, message, oob, nil, unix.MSG_NOSIGNAL) })
}

// TrySend is Send if the other side has room for the message, and reports whether it did. It never
// waits, not even for another goroutine that sends.
func (c *Conn) TrySend(message []byte, fds ...int) bool {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return c.do(func(fd int) error { return unix.Sendmsg(fd, message, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) }) == nil
}

// Peer returns the process at the other end.
func (c *Conn) Peer() (pid int, uid uint32) {
	uid = ^uint32(0)
	_ = c.do(func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			pid, uid = int(cred.Pid), cred.Uid
		}
		return err
	})
	return pid, uid
}

// HungUp reports whether the other end is closed, though messages of it may wait to be received.
func (c *Conn) HungUp() bool {
	p := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err := c.do(func(fd int) error {
		p[0].Fd = int32(fd)
		_, err := unix.Poll(p, 0)
		return err
	})
	return err != nil || p[0].Revents != 0
}

// Expect is Receive for a message of one kind with a number of descriptors. What the other
// side refuses is an error.
func (c *Conn) Expect(k Kind, descriptors int) (message []byte, fds Descriptors, err error) {
	message, fds, err = c.Receive()
	switch {
	case err != nil:
		return nil, nil, err
	case Kind(message[0]) == Refused:
		err = c.protocol.ParseRefusal(message)
	case Kind(message[0]) != k:
		err = c.protocol.Malformed(uint64(k), uint64(message[0]))
	case len(fds) != descriptors:
		err = c.protocol.Malformed(uint64(descriptors), uint64(len(fds)))
	default:
		return message, fds, nil
	}
	fds.Close()
	return nil, nil, err
}
