package stream

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// MaxSilent is how many streams of a listener may wait for their peer's request at a
// time. One more replaces another one: silent peers must not keep others out.
const MaxSilent = 256

// ErrPortTaken is wrapped if another socket of the system has the port.
var ErrPortTaken = errors.New("port taken in the system")

// A Listener accepts streams. Its handler is called with the requests that come on them.
type Listener struct {
	s       *Set
	l       link.Listener
	handler func(*Event)
	backlog int

	silent list.List // of *Stream that have not asked, the oldest first
	asked  int       // streams whose request was not answered
	ready  bool      // there may be streams to accept
	queued bool
	closed bool
}

// Listen accepts streams on a port of the device's address, 0 for any.
// Handler gets the event Requested of each, which Stream.Accept or Reject
// answers, and the events of the stream from then on. At most backlog requests
// wait for an answer: more wait in the system.
func (s *Set) Listen(port uint16, backlog int, handler func(*Event)) (x *Listener, err error) {
	err = s.Host.Do(func(time.Duration) (err error) {
		x = &Listener{s: s, handler: handler, backlog: max(backlog, 1)}
		if x.l, err = s.Link.Listen(port, x.backlog, x); err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w: %w", ErrPortTaken, err)
			}
			return err
		}
		s.listeners[x] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Addr returns the address and port.
func (x *Listener) Addr() netip.AddrPort { return x.l.Addr() }

// Waiting returns how many accepted streams wait for their peer's request or for an
// answer to it.
func (x *Listener) Waiting() (n int) {
	_ = x.s.Host.Do(func(time.Duration) error { // a closed device has none
		n = x.silent.Len() + x.asked
		return nil
	})
	return n
}

// Close ends the listener, and the streams on which no request has come yet. The
// others are the user's.
func (x *Listener) Close() {
	_ = x.s.Host.Do(func(now time.Duration) error { // a closed device has none
		x.close()
		for c := range x.s.open {
			if c.listener == x && !c.asking {
				c.handler = nil
				c.leave(now)
			}
		}
		return nil
	})
}

func (x *Listener) close() {
	if x.closed {
		return
	}
	x.closed = true
	delete(x.s.listeners, x)
	_ = x.l.Close() // it is gone in any case
}

func (x *Listener) becameReady() {
	x.ready = true
	x.queue()
}

func (x *Listener) queue() {
	if x.ready && !x.queued && !x.closed && x.asked < x.backlog {
		x.queued = true
		x.s.turns.Push(x)
	}
}

// serve accepts one stream.
func (x *Listener) serve(now time.Duration) {
	x.queued = false
	if x.closed {
		return
	}
	c := x.s.newStream(x.handler)
	conn, err := x.l.Accept(c)
	switch {
	case err == link.ErrWouldBlock:
		x.ready = false
		return
	case err != nil:
		// Out of descriptors, mostly. The next peer, the next answer or the end of a
		// stream makes it try again.
		x.s.Host.Refuse(0, connectDetail(err, x.l.Addr().Port()))
		return
	}
	c.setConn(conn)
	c.listener = x
	c.silent, c.since = x.silent.PushBack(c), now
	x.s.open[c] = struct{}{}
	c.m.SetSegment(conn.Segment())
	_ = c.m.Listen(now, 0) // a new machine listens
	c.after(now)
	if x.silent.Len() > MaxSilent {
		x.evict(now)
	}
	x.queue()
}

// evict ends the stream that has waited longest for its peer's request, of those of the host that has most.
func (x *Listener) evict(now time.Duration) {
	all := make([]*Stream, 0, x.silent.Len())
	from := make([]netip.Addr, 0, x.silent.Len())
	for l := x.silent.Front(); l != nil; l = l.Next() {
		c := l.Value.(*Stream)
		all, from = append(all, c), append(from, c.conn.Remote().Addr())
	}
	c := all[link.Displaced(from)]
	x.s.Host.Refuse(0, reason.Detail{
		Reason: reason.MPASilent, Expected: MaxSilent, Found: uint64((now - c.since) / time.Millisecond),
	})
	c.handler = nil
	c.m.Abort(now)
	c.after(now)
}

// Accept answers a request with a queue pair, whose state becomes RTS. The event
// Established comes once it may send.
func (c *Stream) Accept(qpn uint32, p *iwarp.Params) error {
	return c.do(func(now time.Duration) error {
		if a := c.s.awayOf(qpn); a != nil {
			return c.acceptAway(a, qpn, p)
		}
		x, err := c.s.find(qpn)
		if err != nil {
			return err
		}
		return c.accept(now, x, p)
	})
}

func (c *Stream) accept(now time.Duration, x *QP, p *iwarp.Params) error {
	before, on := c.qp, x.on
	c.join(x)
	if err := c.m.Accept(now, x.m, c.s.params(p)); err != nil {
		c.qp, x.on = before, on
		return err
	}
	a := x.m.Agreement()
	x.setAgreement(&a)
	c.answered()
	return nil
}

// Reject answers a request with a refusal.
func (c *Stream) Reject(private []byte) error {
	return c.do(func(now time.Duration) error {
		if err := c.m.Reject(now, private); err != nil {
			return err
		}
		c.ended = true
		c.answered()
		return nil
	})
}
