package stream

import (
	"container/list"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// sendBatches is how many batches a stream sends in one turn.
const sendBatches = 2

// A Stream is a connection over iWARP: a stream of the link with the machine that reads
// and writes it. It begins with Dial or with a listener. After Release it lives on as
// long as there is something to send to the peer.
type Stream struct {
	// Context is the user's. It is set before the first event, or in the event
	// of a request.
	Context any

	s        *Set
	away     Away // the process that drives it; nil for this one
	m        *iwarp.Stream
	conn     link.Stream
	shown    atomic.Pointer[link.Stream]    // conn, for Local and Remote, which any goroutine may ask
	local    atomic.Pointer[netip.AddrPort] // of a stream that another process drives
	entry    schedule.Entry                 // among the lane's tasks
	qp       *QP
	handler  func(*Event)
	listener *Listener     // until it is answered
	silent   *list.Element // of the listener's, until the peer's request comes
	since    time.Duration // when the listener accepted it
	port     uint16        // that was dialled
	held     int           // bytes that the link has not given to the system
	cause    error         // why the link ended it, where the link knows more than the machine
	fallback *fallback     // another request that may follow, nil if there is none
	refused  reason.Detail // why the first request failed, where another one was made
	unsent   error         // of a write: nothing more is sent, what has come is read to its end
	faulty   *faulty       // conn, if rules of faults apply to it
	unruled  bool          // rules may have come since it began, see rule

	dialing   bool // not connected yet
	readable  bool // until the link would have to wait
	hangup    bool // the peer's end is among what is to be read
	writable  bool
	queued    bool // in Set.turns
	asking    bool // a request that was not answered
	ended     bool // the end was reported
	writeShut bool // nothing more is sent
	closed    bool
}

// An Event is what happened to a stream. It is valid during the call of the
// handler, which may only take note of it.
type Event struct {
	iwarp.Event
	Err      error // what lies behind Detail, where the link knows more
	On       *Stream
	Listener *Listener // Requested
}

// join connects a queue pair and its stream.
func (c *Stream) join(x *QP) { x.on, c.qp = c, x }

// event passes the machine's events on.
func (c *Stream) event(e *iwarp.Event) {
	switch e.Kind {
	case iwarp.Requested:
		c.asking = true
		c.requested()
	case iwarp.Established:
		if c.qp != nil {
			c.qp.setAgreement(&e.Agreement)
		}
	default:
		if e.Unanswered && c.fallback != nil && c.handler != nil {
			c.refused, c.fallback.due = e.Detail, true
			return
		}
		c.ended = true
		if e.Kind == iwarp.Refused && c.qp == nil { // a queue pair's machine reports its own
			c.s.Host.Refuse(0, e.Detail)
		}
	}
	c.fallback = nil
	if c.handler != nil {
		c.handler(&Event{Event: *e, Err: c.cause, On: c, Listener: c.listener})
	}
}

func (c *Stream) qpn() uint32 {
	if c.qp == nil {
		return 0
	}
	return c.qp.port.QPN
}

// becameReady notes what the link reports of the stream.
func (c *Stream) becameReady(now time.Duration, r *link.Readiness) {
	if c.closed {
		return
	}
	c.hangup = c.hangup || r.Hangup
	if r.Writable {
		c.writable = true
		if c.dialing {
			c.dialled(now)
		}
		c.s.Tasks.Push(&c.entry)
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
	if c.faulty != nil {
		c.faulty.now = now
	}
	room := c.m.Room(now, c.s.scratch)
	n, err := c.conn.Read(room)
	c.s.Host.Received(n)
	c.m.Filled(now, n)
	c.rule(now)
	switch {
	case err != nil && c.unsent != nil:
		c.readable = false
		c.lost(now, c.unsent)
	case err == link.ErrWouldBlock:
		c.readable = false
	case err != nil:
		c.readable = false
		c.lost(now, err)
	case !c.hangup && c.unsent == nil:
		for _, p := range room {
			n -= len(p)
		}
		// Fewer bytes than there was room for: the link reports the next ones.
		c.readable = n == 0
	}
	c.s.Tasks.Push(&c.entry)
	c.after(now)
}

// lost tells the machine that the connection has ended.
func (c *Stream) lost(now time.Duration, err error) {
	var f *link.Failure
	switch {
	case errors.As(err, &f):
		c.cause = f
		c.m.Failed(now, f.Detail)
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		// When TCP gives up, Linux reports the last network error, if there was one, instead of the timeout.
		c.m.TimedOut(now)
	default:
		c.m.Closed(now, err != io.EOF)
	}
}

// pump sends what there is, as far as a turn goes.
func (c *Stream) pump(now time.Duration) {
	defer c.after(now)
	c.flush(now)
	if c.closed || c.dialing || c.writeShut || c.unsent != nil {
		return
	}
	if c.held > 0 {
		c.held = c.conn.Held()
		c.m.Sent(now, 0, c.held)
	}
	out := &c.s.out
	for range sendBatches {
		if c.rule(now); !c.writable || !c.m.Next(now, out) {
			return
		}
		n, err := c.conn.Write(out.Pieces)
		c.held = c.conn.Held()
		c.m.Sent(now, n, c.held)
		switch {
		case err == link.ErrWouldBlock:
			c.writable = false
		case err != nil:
			c.unsendable(err)
		}
	}
	c.s.Tasks.Push(&c.entry)
}

// unsendable follows an error of a write. What the peer said before it went, a Terminate perhaps, is
// still to be read.
func (c *Stream) unsendable(err error) {
	c.writable, c.readable, c.unsent = false, true, err
	c.queue()
}

// after follows each call of the machine: it ends the connection if the machine wants
// that, reads on if there is something to read, and sets the deadline.
func (c *Stream) after(now time.Duration) {
	switch {
	case c.closed:
		return
	case c.fallback != nil && c.fallback.due && c.handler != nil:
		c.redial(now)
		return
	}
	switch c.m.Shut() {
	case iwarp.ShutNothing:
	case iwarp.ShutWrite:
		if !c.writeShut {
			c.writeShut = true
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
	c.s.Tasks.Set(&c.entry, c.deadline())
}

// end closes the connection. What was written is still sent unless it is reset.
func (c *Stream) end(reset bool) {
	if c.closed {
		return
	}
	c.closed = true
	c.answered()
	c.s.Tasks.Remove(&c.entry)
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
		if q.on == c {
			q.on = nil
		}
		c.s.Tasks.Push(q.entry) // what it has left to flush
	}
}

// requested gives up the stream's place among the silent peers of its listener: a
// request has come.
func (c *Stream) requested() {
	if c.silent != nil {
		c.listener.silent.Remove(c.silent)
		c.silent = nil
		c.listener.asked++
	}
}

// answered gives up the stream's place with its listener.
func (c *Stream) answered() {
	c.asking = false
	x := c.listener
	if x == nil {
		return
	}
	c.requested()
	c.listener = nil
	x.asked--
	x.queue()
}

// leave ends the connection: in order if it is established, by a rejection if the peer
// waits for an answer, else at once.
func (c *Stream) leave(now time.Duration) {
	switch {
	case c.closed || c.ended:
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

// setConn gives the stream its connection.
func (c *Stream) setConn(conn link.Stream) {
	c.conn = conn
	c.shown.Store(&conn)
	c.setFaults()
}

// Local is this end's address and port.
func (c *Stream) Local() netip.AddrPort {
	if at := c.local.Load(); at != nil {
		return *at
	}
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

// do runs f on an open stream, and then sends what is to be sent.
func (c *Stream) do(f func(now time.Duration) error) error {
	return c.s.Host.Do(func(now time.Duration) error {
		if c.closed || c.away != nil {
			return io.ErrClosedPipe
		}
		err := f(now)
		c.pump(now)
		return err
	})
}

// Disconnect ends an established connection in order; one that has ended is no
// error. The queue pair goes to the error state.
func (c *Stream) Disconnect() error {
	if c.toAway(Away.Disconnect) {
		return nil
	}
	err := c.do(func(now time.Duration) error {
		if c.ended {
			return nil
		}
		return c.m.Disconnect(now)
	})
	if err == io.ErrClosedPipe {
		return nil
	}
	return err
}

// Release gives the stream up, in any state. No more events follow.
func (c *Stream) Release() {
	if c.toAway(func(a Away, c *Stream) {
		c.handler = nil
		a.Release(c)
	}) {
		return
	}
	_ = c.s.Host.Do(func(now time.Duration) error { // a closed device has none
		c.handler = nil
		c.leave(now)
		c.pump(now)
		return nil
	})
}
