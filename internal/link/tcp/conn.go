package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/link"
)

// lingerTimeout is how long a closed stream tries to send remaining data.
const lingerTimeout = 30 * time.Second

// A conn is a link.Stream with two goroutines: one reads the socket, the other dials and
// writes it. A buffer lies between the lane and each of them.
type conn struct {
	notice
	l       *conns
	in, out *ring
	stop    context.CancelFunc // ends dialling

	mu            sync.Mutex // of the fields below
	local, remote netip.AddrPort
	raw           Conn      // nil before it is connected
	over          transport // raw, or TLS over it
	dialed        bool      // dialling has ended, with this result:
	err           error
	closed        bool
	relay         relay // of a stream that another process drives; nil otherwise
}

// A relay takes the place of the lane and its buffers.
type relay interface {
	connected(err error)
	read()  // carries what the peer sends
	write() // carries what the process sends, and returns when the connection is to be closed
	shut()  // the link closes
}

// A transport carries a stream's bytes.
type transport interface {
	net.Conn
	CloseWrite() error
}

func (l *conns) newConn(owner any) *conn {
	c := &conn{l: l, in: newRing(), out: newRing(), stop: func() {}}
	c.Owner = owner
	return c
}

// Dial begins to connect to a peer.
func (l *conns) Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (link.Stream, error) {
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	if err := l.checkPeer(dst); err != nil {
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	c := l.newConn(owner)
	c.remote = dst
	ctx, stop := context.WithCancel(l.ended)
	c.stop = stop
	if !l.add(c) {
		stop()
		return nil, link.ErrClosed
	}
	from := netip.AddrPortFrom(l.local, port)
	if port != 0 {
		c.local = from
	}
	l.work.Go(func() { c.dial(ctx, from, tos) })
	return c, nil
}

// dial connects, and then continues as the writing goroutine.
func (c *conn) dial(ctx context.Context, from netip.AddrPort, tos uint8) {
	defer c.stop()
	raw, err := c.l.network.Dial(ctx, from, c.remote, tos)
	if err != nil {
		c.connected(nil, nil, named(err))
		return
	}
	if err := raw.Prepare(&c.l.cfg); err != nil {
		_ = raw.Close()
		c.connected(nil, nil, err)
		return
	}
	over := transport(raw)
	if c.l.security != nil {
		if over, err = client(ctx, raw, c.l.security, c.l.local, c.remote.Addr()); err != nil {
			_ = raw.Close()
			c.connected(nil, nil, err)
			return
		}
	}
	if c.connected(raw, over, nil) {
		c.l.work.Go(c.read)
		c.write()
	}
}

// connected records the result of connecting, and reports whether the stream is still open.
func (c *conn) connected(raw Conn, over transport, err error) bool {
	c.mu.Lock()
	c.raw, c.over, c.err, c.dialed = raw, over, err, true
	closed := c.closed
	if raw != nil {
		c.local = c.l.addrPort(raw.LocalAddr())
	}
	r := c.relay
	c.mu.Unlock()
	switch {
	case r == nil:
	case closed:
		r.connected(link.ErrClosed)
	default:
		r.connected(err)
	}
	if closed && over != nil {
		_ = raw.Close() // TLS has nothing to send yet
	}
	c.l.notify(&c.notice, link.Readiness{Writable: true, Hangup: err != nil})
	return !closed && err == nil
}

// begin starts an accepted connection.
func (c *conn) begin(raw Conn, over transport) bool {
	c.raw, c.over, c.dialed = raw, over, true
	c.local, c.remote = c.l.addrPort(raw.LocalAddr()), c.l.addrPort(raw.RemoteAddr())
	if !c.l.add(c) {
		return false
	}
	c.l.work.Go(c.read)
	c.l.work.Go(c.write)
	c.l.notify(&c.notice, link.Readiness{Writable: true})
	return true
}

// read is the reading goroutine.
func (c *conn) read() {
	for {
		b := c.in.room()
		if b == nil {
			break
		}
		n, err := c.over.Read(b)
		if err != nil && err != io.EOF {
			err = named(err)
		}
		c.in.filled(n, err)
		c.l.notify(&c.notice, link.Readiness{Readable: true, Hangup: err != nil})
		if err != nil {
			c.in.waitClosed()
			break
		}
	}
	if r := c.relayed(); r != nil {
		r.read()
	}
}

// relayed returns the relay of a stream that has left the lane.
func (c *conn) relayed() relay {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.relay
}

// write is the writing goroutine. At the end it closes the connection.
func (c *conn) write() {
	defer c.over.Close()
	for {
		b, last, closed := c.out.next()
		switch {
		case len(b) > 0:
			n, err := c.over.Write(b)
			if tell, ended := c.out.sent(n, named(err)); tell {
				c.l.notify(&c.notice, link.Readiness{Readable: ended, Writable: true, Hangup: err != nil})
			}
		case closed:
			if r := c.relayed(); r != nil {
				r.write()
			}
			return
		case last:
			_ = c.over.CloseWrite() // an error means that the peer has gone, which Read reports
			c.out.waitClosed()
			return
		}
	}
}

// Local returns this end's address and port.
func (c *conn) Local() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local
}

// Remote returns the peer's address and port.
func (c *conn) Remote() netip.AddrPort { return c.remote }

// Connected implements link.Stream.
func (c *conn) Connected() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dialed {
		return link.ErrWouldBlock
	}
	return c.err
}

// Segment returns TCP's maximum segment size. With TLS it is unknown.
func (c *conn) Segment() int {
	c.mu.Lock()
	raw := c.raw
	c.mu.Unlock()
	if raw == nil || c.l.security != nil {
		return 0
	}
	return raw.Segment()
}

// Read implements link.Stream.
func (c *conn) Read(pieces [][]byte) (int, error) {
	n, err := c.in.read(pieces)
	if err == io.EOF && !c.out.finished() {
		return 0, link.ErrWouldBlock
	}
	return n, err
}

// Write writes as much as there is room for.
func (c *conn) Write(pieces [][]byte) (int, error) { return c.out.write(pieces) }

// Held implements link.Stream.
func (c *conn) Held() int { return c.out.count() }

// ShutWrite implements link.Stream.
func (c *conn) ShutWrite() error {
	c.out.ends(false)
	return nil
}

// Close ends the stream.
func (c *conn) Close() error { return c.close(false) }

// Reset ends the stream at once.
func (c *conn) Reset() error { return c.close(true) }

func (c *conn) close(reset bool) error {
	if err := c.l.remove(c, &c.notice); err != nil {
		return err
	}
	c.stop()
	c.mu.Lock()
	c.closed = true
	raw, over, r := c.raw, c.over, c.relay
	c.mu.Unlock()
	if r != nil {
		r.shut()
	}
	var err error
	if over != nil {
		if reset {
			err = errors.Join(raw.SetLinger(0), raw.Close())
		} else {
			timeout := c.l.linger
			if c.l.closing() {
				timeout = closeTimeout
			}
			err = errors.Join(raw.SetWriteDeadline(time.Now().Add(timeout)), raw.SetReadDeadline(time.Unix(1, 0)))
		}
	}
	c.in.ends(true)
	c.out.ends(true)
	return err
}
