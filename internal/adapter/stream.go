package adapter

import (
	"io"
	"net/netip"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
)

// sendBatches is how many batches a stream sends in one turn.
const sendBatches = 2

// A Stream is a connection over iWARP: a stream of the link with the machine
// that reads and writes it. It begins with Dial or with a listener, and lives
// on its own after Release as long as there is something to say to the peer.
type Stream struct {
	// Context is the user's. It is set before the first event, or in the event
	// of a request.
	Context any

	s        *streams
	m        *iwarp.Stream
	conn     link.Stream
	task     QP // stands for the stream among the lane's queue pairs
	qp       *QP
	handler  func(*StreamEvent)
	listener *StreamListener // until it is answered
	port     uint16          // that was dialled

	dialing  bool // not connected yet
	readable bool // until the link would have to wait
	hangup   bool // the peer's end is among what is to be read
	writable bool
	queued   bool // in streams.turns
	asking   bool // a request that was not answered
	over     bool // the end was told
	halved   bool // nothing more is sent
	closed   bool
}

// A StreamEvent is what happened to a stream. It is valid during the call of the
// handler, which may only take note of it.
type StreamEvent struct {
	iwarp.Event
	On       *Stream
	Listener *StreamListener // Requested
}

// join leads from a queue pair to its stream and back.
func (c *Stream) join(x *connected) {
	x.on, c.qp = c, x.q
}

// event passes the machine's events on.
func (c *Stream) event(e *iwarp.Event) {
	switch e.Kind {
	case iwarp.Requested:
		c.asking = true
	case iwarp.Established:
		c.operates(&e.Agreement)
	default:
		c.over = true
	}
	if c.handler != nil {
		c.handler(&StreamEvent{Event: *e, On: c, Listener: c.listener})
	}
}

// operates tells the queue pair what was agreed on.
func (c *Stream) operates(a *iwarp.Agreement) {
	if c.qp == nil {
		return
	}
	c.qp.Attr.MaxRdAtomic, c.qp.Attr.MaxDestRdAtomic = uint8(min(a.ORD, 255)), uint8(min(a.IRD, 255))
	c.qp.m.(*connected).agree()
}

func (c *Stream) qpn() uint32 {
	if c.qp == nil {
		return 0
	}
	return c.qp.QPN
}

// becameReady takes note of what the link tells of the stream.
func (c *Stream) becameReady(now time.Duration, r *link.Readiness) {
	if c.closed {
		return
	}
	c.hangup = c.hangup || r.Hangup
	if r.Writable {
		c.writable = true
		if c.dialing {
			c.connects(now)
		}
		c.s.lane.ready.push(&c.task)
	}
	if r.Readable && !c.closed {
		c.readable = true
		c.queue()
	}
}

func (c *Stream) queue() {
	if !c.queued {
		c.queued = true
		c.s.push(c)
	}
}

// serve is one turn of reading.
func (c *Stream) serve(now time.Duration) {
	c.queued = false
	if c.closed || c.dialing || !c.readable {
		return
	}
	room := c.m.Room(now, c.s.scratch)
	n, err := c.conn.Read(room)
	c.m.Filled(now, n)
	switch {
	case err == link.ErrWouldBlock:
		c.readable = false
	case err != nil:
		c.readable = false
		c.m.Closed(now, err != io.EOF)
	case !c.hangup:
		for _, p := range room {
			n -= len(p)
		}
		// Fewer bytes than there was room for: the next ones will be told of.
		c.readable = n == 0
	}
	c.s.lane.ready.push(&c.task)
	c.after(now)
	if c.readable && !c.closed {
		c.queue()
	}
}

// pump sends what there is, as far as a turn goes.
func (c *Stream) pump(now time.Duration) {
	defer c.after(now)
	if c.closed || c.dialing || c.halved {
		return
	}
	out := &c.s.out
	for range sendBatches {
		if !c.writable || !c.m.Next(now, out) {
			return
		}
		n, err := c.conn.Write(out.Pieces)
		c.m.Sent(now, n)
		switch {
		case err == link.ErrWouldBlock:
			c.writable = false
		case err != nil:
			c.writable = false
			c.m.Closed(now, true)
		}
	}
	c.s.lane.ready.push(&c.task)
}

// after does what the machine wants done with the connection, and minds its
// deadline.
func (c *Stream) after(now time.Duration) {
	if c.closed {
		return
	}
	if !c.dialing || c.over {
		switch c.m.Shut() {
		case iwarp.ShutNothing:
		case iwarp.ShutWrite:
			if !c.halved {
				c.halved = true
				_ = c.conn.ShutWrite() // refused where the peer has gone: reading tells
			}
		case iwarp.ShutClose:
			c.end(false)
			return
		case iwarp.ShutAbort:
			c.end(true)
			return
		}
	}
	c.s.lane.timers.set(&c.task, c.m.Deadline())
}

// end closes the connection. What was written is still sent unless it is reset.
func (c *Stream) end(reset bool) {
	if c.closed {
		return
	}
	c.closed = true
	c.answered()
	l := c.s.lane
	l.timers.remove(&c.task)
	c.task.destroyed = true
	delete(c.s.open, c)
	c.s.pool.Trim(keptArenas)
	if c.conn != nil {
		if reset {
			_ = c.conn.Reset() // it is gone in any case
		} else {
			_ = c.conn.Close()
		}
	}
	if q := c.qp; q != nil {
		if x := q.m.(*connected); x.on == c {
			x.on = nil
		}
		l.ready.push(q) // what it has left to flush
	}
}

// answered frees the request's place in its listener's backlog.
func (c *Stream) answered() {
	c.asking = false
	if x := c.listener; x != nil {
		c.listener = nil
		x.answered()
	}
}

// part ends the connection as well as it can be: in order where it operates, by
// a rejection where it was asked for, else at once.
func (c *Stream) part(now time.Duration) {
	switch {
	case c.closed || c.over:
	case c.asking:
		_ = c.m.Reject(now, nil) // without private data it cannot fail
		c.answered()
	default:
		if c.m.Disconnect(now) != nil {
			c.m.Abort(now)
		}
	}
	c.after(now)
}

// Local is this end's address and port.
func (c *Stream) Local() netip.AddrPort {
	if c.conn == nil {
		return netip.AddrPort{}
	}
	return c.conn.Local()
}

// Remote is the peer's address and port.
func (c *Stream) Remote() netip.AddrPort {
	if c.conn == nil {
		return netip.AddrPort{}
	}
	return c.conn.Remote()
}

// do runs f on an open stream, and sends what is to be sent then.
func (c *Stream) do(f func(now time.Duration) error) error {
	return c.s.lane.withStreams(func(s *streams, now time.Duration) error {
		if c.closed {
			return io.ErrClosedPipe
		}
		err := f(now)
		c.pump(now)
		return err
	})
}

// Accept answers a request with a queue pair, whose state becomes RTS. The event
// Established comes when it may send.
func (c *Stream) Accept(qpn uint32, p *iwarp.Params) error {
	return c.do(func(now time.Duration) error {
		x, err := c.s.lane.connectable(qpn)
		if err != nil {
			return err
		}
		before := c.qp
		c.join(x)
		if err := c.m.Accept(now, x.m, p); err != nil {
			c.qp = before
			if x.on == c {
				x.on = nil
			}
			return err
		}
		a := x.m.Agreement()
		c.operates(&a)
		c.answered()
		return nil
	})
}

// Reject answers a request with a refusal.
func (c *Stream) Reject(private []byte) error {
	return c.do(func(now time.Duration) error {
		if err := c.m.Reject(now, private); err != nil {
			return err
		}
		c.over = true
		c.answered()
		return nil
	})
}

// Disconnect ends an established connection in order; one that has ended is no
// error. The queue pair goes to the error state.
func (c *Stream) Disconnect() error {
	err := c.do(func(now time.Duration) error {
		if c.over {
			return nil
		}
		return c.m.Disconnect(now)
	})
	if err == io.ErrClosedPipe {
		return nil
	}
	return err
}

// Release gives the stream up, in any state. No event comes after.
func (c *Stream) Release() {
	_ = c.s.lane.withStreams(func(s *streams, now time.Duration) error { // a closed device has none
		c.handler = nil
		c.part(now)
		c.pump(now)
		return nil
	})
}
