//go:build linux

package uverbs

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wake"
	"softrdma/internal/wire/uapi"
)

// controlLen is the room for control messages: the sender's credentials. Descriptors do not fit, so
// the system opens none.
const controlLen = 32

// An exchange receives the requests of one connection and sends the answers.
//
// It waits on a thread in the kernel (wake.LeavePoller). A program sleeps until its call
// is answered, so the system runs the thread in the program's place, on the same
// processor, and then the program again. A program has as many connections as threads that
// call at the same time; most programs have one. Those beyond wake.MaxThreads use Go's poller.
type exchange struct {
	conn  *net.UnixConn
	raw   syscall.RawConn
	fd    int // -1 in Go's poller
	data  [uapi.RequestLen + uapi.MaxData]byte
	oob   [controlLen]byte
	reply []byte
	iov   unix.Iovec
	head  unix.Msghdr
	n     int
	no    syscall.Errno
	try   [2]func(fd uintptr) bool // receive and send, without waiting
}

func newExchange(c *net.UnixConn) (*exchange, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	e := &exchange{conn: c, raw: raw, fd: -1}
	for i, number := range [2]uintptr{unix.SYS_RECVMSG, unix.SYS_SENDMSG} {
		e.try[i] = func(fd uintptr) bool {
			return e.call(number, int(fd), unix.MSG_DONTWAIT) != unix.EAGAIN
		}
	}
	return e, nil
}

// run calls f, on a thread of its own if there are not too many.
func (e *exchange) run(s *Server, f func()) {
	if e.leave(s) {
		defer e.end(s)
	}
	f()
}

// leave removes the connection from Go's poller, whose thread each request would wake
// as well. It reports whether that succeeded.
func (e *exchange) leave(s *Server) bool {
	fd, err := wake.LeavePoller(e.conn)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		wake.CloseDescriptor(fd)
		return false
	}
	e.fd = fd
	delete(s.conns, e.conn)
	s.exchanges[e] = struct{}{}
	_ = e.conn.Close() // fd keeps the connection open
	return true
}

// end closes a connection after leave.
func (e *exchange) end(s *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.exchanges, e)
	wake.CloseDescriptor(e.fd)
}

// hangUp ends an exchange that may be waiting. The caller has the server's lock.
func (e *exchange) hangUp() { _ = unix.Shutdown(e.fd, unix.SHUT_RDWR) }

// call is recvmsg or sendmsg.
func (e *exchange) call(number uintptr, fd int, flags uintptr) syscall.Errno {
	for {
		n, _, no := unix.Syscall(number, uintptr(fd), uintptr(unsafe.Pointer(&e.head)), flags|unix.MSG_CMSG_CLOEXEC|unix.MSG_NOSIGNAL)
		if no != unix.EINTR {
			e.n, e.no = int(n), no
			return no
		}
	}
}

// A message is what one recvmsg has returned.
type message struct {
	data []byte
	from *unix.Ucred // the sender, nil if unknown
	cut  bool        // it came with descriptors
}

// receive waits for the next message and reports whether there was one.
// A message may be empty: unlike the end of the connection it has a sender.
func (e *exchange) receive(m *message) bool {
	e.iov.Base = &e.data[0]
	e.iov.SetLen(len(e.data))
	e.head = unix.Msghdr{Iov: &e.iov, Control: &e.oob[0]}
	e.head.SetIovlen(1)
	e.head.SetControllen(len(e.oob))
	if e.fd >= 0 {
		e.call(unix.SYS_RECVMSG, e.fd, 0)
	} else if e.raw.Read(e.try[0]) != nil {
		return false
	}
	if e.no != 0 || e.n < 0 || e.n == 0 && e.head.Controllen == 0 {
		return false
	}
	m.data = e.data[:e.n]
	m.from = credentials(e.oob[:e.head.Controllen])
	m.cut = e.head.Flags&unix.MSG_CTRUNC != 0
	return true
}

// Send sends an answer and reports whether that succeeded.
func (e *exchange) Send(a *client.Answer) bool {
	e.reply = append(append(e.reply[:0], uapi.Bytes(&a.Reply)...), a.Text...)
	e.iov.Base = &e.reply[0]
	e.iov.SetLen(len(e.reply))
	e.head = unix.Msghdr{Iov: &e.iov}
	e.head.SetIovlen(1)
	if len(a.FDs) > 0 {
		rights := unix.UnixRights(a.FDs...)
		e.head.Control = &rights[0]
		e.head.SetControllen(len(rights))
	}
	if e.fd >= 0 {
		e.call(unix.SYS_SENDMSG, e.fd, 0)
	} else if e.raw.Write(e.try[1]) != nil {
		return false
	}
	return e.no == 0
}

// credentials returns the credentials of a message that has no other control message,
// as nearly all have.
func credentials(control []byte) *unix.Ucred {
	if len(control) != unix.CmsgSpace(unix.SizeofUcred) {
		return nil
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_CREDENTIALS || int(h.Len) != unix.CmsgLen(unix.SizeofUcred) {
		return nil
	}
	return (*unix.Ucred)(unsafe.Pointer(&control[unix.CmsgLen(0)]))
}
