package adapter

import (
	"container/list"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/reason"
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
	shown    atomic.Pointer[link.Stream] // conn, for Local and Remote, which any goroutine may ask
	entry    schedule.Entry              // among the lane's tasks
	qp       *QP
	handler  func(*StreamEvent)
	listener *StreamListener // until it is answered
	silent   *list.Element   // of the listener's, until the peer's request comes
	since    time.Duration   // when the listener accepted it
	port     uint16          // that was dialled
	cause    error           // why the link ended it, where the link knows more than the machine
	again    *again          // what another request needs, nil where there is none to come
	first    reason.Detail   // why the first request failed, where another one was made
	unsent   error           // of a write: nothing more is sent, what has come is read to its end

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
	Err      error // what lies behind Detail, where the link knows more
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
		c.spoke()
	case iwarp.Established:
		c.operates(&e.Agreement)
	default:
		if e.Unanswered && c.again != nil && c.handler != nil {
			c.first, c.again.due = e.Detail, true
			return
		}
		if c.over = true; e.Kind == iwarp.Refused && c.qp == nil { // a queue pair's machine tells of its own
			c.s.lane.dev.Trace.Refuse(0, e.Detail)
		}
	}
	c.again = nil
	if c.handler != nil {
		c.handler(&StreamEvent{Event: *e, Err: c.cause, On: c, Listener: c.listener})
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
		c.s.lane.tasks.Push(&c.entry)
	}
	if r.Readable && !c.closed {
		c.readable = true
		c.queue() // a stalled stream reads on when it is none any more
	}
}

func (c *Stream) queue() {
	if !c.queued {
		c.queued = true
		c.s.turns.Push(c)
	}
}

// serve is one turn of reading.
func (c *Stream) serve(now time.Duration) {
	c.queued = false
	if c.closed || c.dialing || !c.readable || c.m.Stalled() {
		return
	}
	room := c.m.Room(now, c.s.scratch)
	n, err := c.conn.Read(room)
	c.s.lane.Received(n)
	c.m.Filled(now, n)
	switch {
	case err != nil && c.unsent != nil:
		c.readable = false
		c.breaks(now, c.unsent)
	case err == link.ErrWouldBlock:
		c.readable = false
	case err != nil:
		c.readable = false
		c.breaks(now, err)
	case !c.hangup && c.unsent == nil:
		for _, p := range room {
			n -= len(p)
		}
		// Fewer bytes than there was room for: the next ones will be told of.
		c.readable = n == 0
	}
	c.s.lane.tasks.Push(&c.entry)
	c.after(now)
}

// breaks tells the machine of the stream's end.
func (c *Stream) breaks(now time.Duration, err error) {
	var f *link.Failure
	if !errors.As(err, &f) {
		c.m.Closed(now, err != io.EOF)
		return
	}
	c.cause = f
	c.m.Failed(now, f.Detail)
}

// pump sends what there is, as far as a turn goes.
func (c *Stream) pump(now time.Duration) {
	defer c.after(now)
	if c.closed || c.dialing || c.halved || c.unsent != nil {
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
			// What the peer said before it went, a Terminate perhaps, is still
			// to be read.
			c.writable, c.readable, c.unsent = false, true, err
			c.queue()
		}
	}
	c.s.lane.tasks.Push(&c.entry)
}

// after does what the machine wants done with the connection, reads on where there
// is something to read, and minds the machine's deadline.
func (c *Stream) after(now time.Duration) {
	switch {
	case c.closed:
		return
	case c.again != nil && c.again.due && c.handler != nil:
		c.redial(now)
		return
	}
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
	if c.readable && !c.dialing && !c.m.Stalled() {
		c.queue()
	}
	c.s.lane.tasks.Set(&c.entry, c.m.Deadline())
}

// end closes the connection. What was written is still sent unless it is reset.
func (c *Stream) end(reset bool) {
	if c.closed {
		return
	}
	c.closed = true
	c.answered()
	l := c.s.lane
	l.tasks.Remove(&c.entry)
	delete(c.s.open, c)
	c.s.pool.Trim(keptArenas)
	if c.conn != nil {
		if reset {
			_ = c.conn.Reset() // it is gone in any case
		} else {
			_ = c.conn.Close()
		}
	}
	for x := range c.s.listeners { // one may wait for a descriptor
		x.queue()
	}
	if q := c.qp; q != nil {
		if x := q.m.(*connected); x.on == c {
			x.on = nil
		}
		l.tasks.Push(&q.entry) // what it has left to flush
	}
}

// spoke gives the place among the silent peers of its listener up: a request has
// come.
func (c *Stream) spoke() {
	if c.silent != nil {
		c.listener.silent.Remove(c.silent)
		c.silent = nil
		c.listener.asked++
	}
}

// answered frees the stream's place with its listener.
func (c *Stream) answered() {
	c.asking = false
	x := c.listener
	if x == nil {
		return
	}
	c.spoke()
	c.listener = nil
	x.asked--
	x.queue()
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

// take makes a connection the stream's.
func (c *Stream) take(conn link.Stream) {
	c.conn = conn
	c.shown.Store(&conn)
}

// Local is this end's address and port.
func (c *Stream) Local() netip.AddrPort {
	if conn := c.shown.Load(); conn != nil {
		return (*conn).Local()
	}
	return netip.AddrPort{}
}

// Remote is the peer's address and port.
func (c *Stream) Remote() netip.AddrPort {
	if conn := c.shown.Load(); conn != nil {
		return (*conn).Remote()
	}
	return netip.AddrPort{}
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
		before, on := c.qp, x.on
		c.join(x)
		if err := c.m.Accept(now, x.m, c.s.lane.dev.wishes(p)); err != nil {
			c.qp, x.on = before, on
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
