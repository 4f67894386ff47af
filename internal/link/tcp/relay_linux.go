package tcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/unixmsg"
)

// stallCheck is how often a relay that waits for a slow peer looks whether its process has gone.
const stallCheck = time.Second

// A socketRelay carries the bytes of a connection to and from the process that drives the stream.
// It buffers at most relayBuffer in each direction; otherwise each side waits for the other.
type socketRelay struct {
	c       *conn
	far     *net.UnixConn
	raw     interface{ Control(func(fd uintptr)) error } // far's
	release func()
	end     sync.Once
}

var _ relay = (*socketRelay)(nil)

// newRelay makes the relay of a connection. It owns the descriptor.
func newRelay(c *conn, fd int, release func()) (*socketRelay, error) {
	far, err := unixmsg.ConnOf(fd)
	if err != nil {
		return nil, err
	}
	raw, err := far.SyscallConn()
	if err != nil {
		_ = far.Close()
		return nil, err
	}
	return &socketRelay{c: c, far: far, raw: raw, release: release}, nil
}

// Move implements link.Mover.
func (l *conns) Move(s link.Stream, hold link.Hold) (fd int, err error) {
	c := s.(*conn)
	release, err := hold()
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	r, err := newRelay(c, fds[0], release)
	if err == nil && !c.leaveLane(r) {
		err = link.ErrClosed
		_ = r.far.Close()
	}
	if err != nil {
		_ = unix.Close(fds[1])
		return -1, err
	}
	r.connected(nil) // for Adopt, which expects it in the socket
	c.in.ends(true)
	c.out.ends(true)
	return fds[1], nil
}

// leaveLane makes a relay carry the bytes of a stream, unless it is closed.
func (c *conn) leaveLane(r *socketRelay) bool {
	c.l.mu.Lock()
	c.gone = true
	c.l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.relay = r
	}
	return !c.closed
}

// Relay implements link.Relayer.
func (l *conns) Relay(fd int, port uint16, dst netip.AddrPort, tos uint8, hold link.Hold) {
	release, err := hold()
	if err != nil {
		_, _ = unix.Write(fd, controlChunk(chunkFailed, brokenBy(err))) // the socket is empty
		_ = unix.Close(fd)
		return
	}
	c := l.newConn(nil)
	r, err := newRelay(c, fd, release)
	if err != nil {
		release()
		return
	}
	c.relay, c.remote = r, netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	c.in.ends(true)
	c.out.ends(true)
	ctx, stop := context.WithCancel(l.ended)
	c.stop = stop
	err = l.checkPeer(c.remote)
	if err == nil && !l.start(c, func() { c.dial(ctx, netip.AddrPortFrom(l.local, port), tos) }) {
		err = link.ErrClosed
	}
	if err != nil {
		stop()
		r.connected(fmt.Errorf("connect to %v: %w", dst, err))
	}
}

// start registers a connection and runs its goroutine, unless the link is closed.
func (l *conns) start(c *conn, f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.open[c] = struct{}{}
	l.work.Go(f) // before Close waits
	return true
}

// connected implements relay.
func (r *socketRelay) connected(err error) {
	if err != nil {
		r.say(chunkFailed, brokenBy(err))
		r.close()
		return
	}
	r.say(chunkOpened, &opened{r.c.Local(), r.c.Remote()})
}

// say sends a chunk of another kind than data.
func (r *socketRelay) say(kind int, body any) {
	_, _ = r.far.Write(controlChunk(kind, body)) // a process that has gone needs none
}

// close ends the relay, which both directions may do.
func (r *socketRelay) close() {
	r.end.Do(func() {
		_ = r.far.Close()
		_ = r.c.l.remove(r.c, &r.c.notice) // unless the link has closed it
		r.release()
	})
}

// read implements relay.
func (r *socketRelay) read() {
	b := make([]byte, chunkHeader+maxTLSRecord)
	var err error
	for err == nil { // what the lane has not read comes first
		var n int
		if n, err = r.c.in.read([][]byte{b[chunkHeader:]}); n > 0 && !r.deliver(b, n) {
			return
		}
	}
	if err == link.ErrWouldBlock {
		err = nil
	}
	for err == nil {
		var n int
		if n, err = r.c.over.Read(b[chunkHeader:]); n > 0 && !r.deliver(b, n) {
			return
		}
	}
	switch {
	case r.c.isClosed():
		r.say(chunkFailed, brokenBy(errRelayLost()))
	case err == io.EOF:
		r.say(chunkEnded, nil)
	default:
		r.say(chunkFailed, brokenBy(err))
	}
	_ = r.far.CloseWrite()
}

// deliver sends data to the process, and reports whether it is still there.
func (r *socketRelay) deliver(b []byte, n int) bool {
	putChunk(b, chunkData, n)
	_, err := r.far.Write(b[:chunkHeader+n])
	return err == nil
}

// write implements relay.
func (r *socketRelay) write() {
	defer r.close()
	raw, over := r.c.raw, r.c.over
	var waits atomic.Bool // for the peer to take data
	var check *time.Timer
	check = time.AfterFunc(time.Hour, func() {
		switch {
		case !waits.Load():
		case r.gone(): // a slow peer must not keep the connection
			r.c.mu.Lock()
			if !r.c.closed { // Close has set its own deadline
				_ = raw.SetWriteDeadline(time.Now().Add(r.c.l.linger))
			}
			r.c.mu.Unlock()
		default:
			check.Reset(stallCheck)
		}
	})
	err := unchunk(r.far, func(b []byte) error {
		waits.Store(true)
		check.Reset(stallCheck)
		_, err := over.Write(b)
		waits.Store(false)
		return err
	})
	check.Stop()
	switch err {
	case io.EOF:
		_ = over.CloseWrite() // an error means that the peer has gone, which read reports
	case io.ErrUnexpectedEOF: // the process resets the stream, or was killed
		_ = raw.SetLinger(0)
		_ = raw.Close()
		return
	default:
		if r.gone() {
			_ = raw.SetLinger(0) // the peer has not taken all
		}
		_ = r.far.CloseRead() // the process's writes fail, and it reads what the peer has sent
	}
	r.waitGone()
}

// gone reports whether the process has closed the stream.
func (r *socketRelay) gone() (is bool) {
	err := r.raw.Control(func(fd uintptr) { is = hungUp(fd) })
	return is || err != nil
}

func hungUp(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// waitGone waits until the process, or the link, has closed the stream.
func (r *socketRelay) waitGone() {
	raw, err := r.far.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { return r.c.isClosed() || hungUp(fd) })
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// shut implements relay: the link closes. What the process has written is still sent.
func (r *socketRelay) shut() { _ = r.far.CloseRead() }
