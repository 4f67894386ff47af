//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/wire/uapi"
)

// A conn is a connection to the daemon that carries one call at a time. It is on the heap, because
// stacks move and the daemon looks at its memory.
type conn struct {
	*net.UnixConn
	ctx  context.Context // bounds dial and all calls
	stop func() bool
	peer unix.Ucred
	in   [replyLen + uapi.MaxText]byte
}

const replyLen = int(unsafe.Sizeof(uapi.Reply{}))

// backlogPause is the time between attempts to connect to a daemon whose backlog is full.
const backlogPause = time.Millisecond

// dial connects to the daemon's socket and allows the daemon to access this process's memory. When
// ctx ends, calls fail with its error.
func dial(ctx context.Context, socket string) (*conn, error) {
	var d net.Dialer
	u, err := d.DialContext(ctx, "unixpacket", socket)
	for errors.Is(err, syscall.EAGAIN) { // unix(7): the backlog is full
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w", socket, ctx.Err())
		case <-time.After(backlogPause):
		}
		u, err = d.DialContext(ctx, "unixpacket", socket)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	c := &conn{UnixConn: u.(*net.UnixConn), ctx: ctx}
	if err := c.askPeer(); err != nil {
		return nil, errors.Join(fmt.Errorf("peer of %s: %w", socket, err), c.Close())
	}
	// Yama needs this permission. Without Yama the call fails and is not needed.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(c.peer.Pid), 0, 0, 0)
	c.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return c, nil
}

// askPeer asks the kernel for the credentials of the process that listens on the socket.
func (c *conn) askPeer() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var no error
	if err := raw.Control(func(fd uintptr) { cred, no = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if no == nil {
		c.peer = *cred
	}
	return no
}

// close ends the connection.
func (c *conn) close() {
	c.stop()
	_ = c.Close()
}

// call makes a call and returns the reply, the text after it and the descriptors.
// An error means that the connection failed.
func (c *conn) call(r *uapi.Request, data []byte) (p uapi.Reply, text []byte, fds []int, err error) {
	r.Version = uapi.Protocol
	if _, err := c.Write(append(uapi.Bytes(r)[:uapi.RequestLen:uapi.RequestLen], data...)); err != nil {
		return p, nil, nil, c.lost(err)
	}
	var oob [64]byte
	n, control, flags, _, err := c.ReadMsgUnix(c.in[:], oob[:])
	if err != nil {
		return p, nil, nil, c.lost(err)
	}
	fds, err = descriptors(oob[:control])
	switch {
	case n < replyLen:
		err = &lostError{io.EOF}
	case err == nil && flags&unix.MSG_CTRUNC != 0:
		err = syscall.EMFILE // this process has reached its limit of descriptors
	}
	if err != nil {
		closeAll(fds)
		return p, nil, nil, err
	}
	p, _ = uapi.Parse[uapi.Reply](c.in[:n])
	return p, c.in[replyLen:n], fds, nil
}

// lost returns the error of a call whose message could not be sent or received.
func (c *conn) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the daemon does not answer: %w", c.ctx.Err())
	}
	return &lostError{err}
}

// A lostError means that the connection ended during a call.
type lostError struct{ err error }

// Error says how it ended.
func (e *lostError) Error() string {
	if errors.Is(e.err, io.EOF) {
		return "the daemon closed the connection"
	}
	return fmt.Sprintf("connection to the daemon: %v", e.err)
}

// Unwrap returns the system's error.
func (e *lostError) Unwrap() error { return e.err }

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
