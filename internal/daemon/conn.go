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

	"softrdma/internal/unixmsg"
	"softrdma/internal/wire/uapi"
)

// A conn is a connection to the daemon that carries one call at a time. It is on the heap, because
// stacks move and the daemon looks at its memory.
type conn struct {
	*unixmsg.Conn
	ctx  context.Context // bounds dial and all calls
	stop func() bool
	peer *unix.Ucred
}

// protocol is the framing of replies. Their bodies are uapi's.
var protocol = unixmsg.Protocol{MaxMessage: replyLen + uapi.MaxText, MaxDescriptors: uapi.MaxSlotDescriptors, Malformed: malformed}

func malformed(expected, found uint64) error {
	return fmt.Errorf("the daemon's reply is too long, or has too many descriptors: expected at most %d, found %d: %w", expected, found, syscall.EPROTO)
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
	c := &conn{Conn: unixmsg.NewConn(u.(*net.UnixConn), &protocol), ctx: ctx}
	if c.peer, err = unixmsg.Peer(c); err != nil {
		return nil, errors.Join(fmt.Errorf("peer of %s: %w", socket, err), c.Close())
	}
	// Yama needs this permission. Without Yama the call fails and is not needed.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(c.peer.Pid), 0, 0, 0)
	c.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return c, nil
}

// close ends the connection.
func (c *conn) close() {
	c.stop()
	_ = c.Close()
}

// call makes a call and returns the reply, the text after it and the descriptors.
// An error means that the connection failed.
func (c *conn) call(r *uapi.Request, data []byte) (p uapi.Reply, text []byte, fds unixmsg.Descriptors, err error) {
	r.Version = uapi.Protocol
	if _, err := c.Write(append(uapi.Bytes(r)[:uapi.RequestLen:uapi.RequestLen], data...)); err != nil {
		return p, nil, nil, c.lost(err)
	}
	in, fds, err := c.Receive()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.EPROTO) {
		return p, nil, nil, err
	}
	if err == nil && len(in) < replyLen {
		fds.Close()
		err = io.EOF
	}
	if err != nil {
		return p, nil, nil, c.lost(err)
	}
	p, _ = uapi.Parse[uapi.Reply](in)
	return p, in[replyLen:], fds, nil
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
