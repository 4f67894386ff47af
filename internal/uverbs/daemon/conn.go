//go:build linux

package daemon

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/uapi"
)

// A conn is a connection to the daemon that carries one call at a time. It must never be on a
// stack, because stacks move and the daemon looks at its memory.
type conn struct {
	fd   int
	peer unix.Ucred
	out  [uapi.RequestLen + uapi.MaxData]byte
	in   [replyLen + uapi.MaxText]byte
	oob  [64]byte
	iov  unix.Iovec
	head unix.Msghdr
}

const replyLen = int(unsafe.Sizeof(uapi.Reply{}))

// dial connects to the daemon's socket and allows the daemon to access this
// process's memory.
func dial(socket string) (*conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	c := &conn{fd: fd}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		c.close()
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		c.close()
		return nil, err
	}
	c.peer = *cred
	// Yama needs this permission. Without Yama the call fails and is not needed.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(cred.Pid), 0, 0, 0)
	return c, nil
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// message calls sendmsg or recvmsg with b and control messages.
func (c *conn) message(number uintptr, b, control []byte) (int, syscall.Errno) {
	c.iov.Base = &b[0]
	c.iov.SetLen(len(b))
	c.head = unix.Msghdr{Iov: &c.iov}
	c.head.SetIovlen(1)
	if len(control) > 0 {
		c.head.Control = &control[0]
		c.head.SetControllen(len(control))
	}
	for {
		n, _, no := unix.Syscall(number, uintptr(c.fd), uintptr(unsafe.Pointer(&c.head)), unix.MSG_CMSG_CLOEXEC|unix.MSG_NOSIGNAL)
		if no != unix.EINTR {
			return int(n), no
		}
	}
}

// call makes a call and returns the reply, the text after it and the descriptors.
// An error means that the connection failed.
func (c *conn) call(r *uapi.Request, data []byte) (p uapi.Reply, text []byte, fds []int, err error) {
	r.Version = uapi.Protocol
	n := copy(c.out[:], uapi.Bytes(r))
	n += copy(c.out[n:], data)
	if _, no := c.message(unix.SYS_SENDMSG, c.out[:n], nil); no != 0 {
		return p, nil, nil, &lostError{no}
	}
	n, no := c.message(unix.SYS_RECVMSG, c.in[:], c.oob[:])
	if no != 0 {
		return p, nil, nil, &lostError{no}
	}
	fds, err = descriptors(c.oob[:c.head.Controllen])
	switch {
	case n < replyLen:
		err = &lostError{0}
	case err == nil && c.head.Flags&unix.MSG_CTRUNC != 0:
		err = syscall.EMFILE // this process has reached its limit of descriptors
	}
	if err != nil {
		closeAll(fds)
		return p, nil, nil, err
	}
	p, _ = uapi.Parse[uapi.Reply](c.in[:n])
	return p, c.in[replyLen:n], fds, nil
}

// A lostError means that the connection ended during a call.
type lostError struct {
	no syscall.Errno // 0 if the daemon closed the connection
}

func (e *lostError) Error() string {
	if e.no == 0 {
		return "the daemon hung up"
	}
	return fmt.Sprintf("connection to the daemon: %v", e.no)
}

// descriptors returns the descriptors of control messages. The caller must close
// them even if there is an error.
func descriptors(control []byte) (fds []int, _ error) {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return fds, err
		}
		if x, err := unix.ParseUnixRights(&unix.SocketControlMessage{Header: h, Data: data}); err == nil {
			fds = append(fds, x...)
		}
		control = rest
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
