package adapter

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// maxSilent is how many streams of a listener may wait for their peer's request at a
// time. One more replaces the oldest: silent peers must not keep others out.
const maxSilent = 256

// ErrPortTaken is wrapped where somebody else in the system has the port.
var ErrPortTaken = errors.New("port taken in the system")

// A StreamListener accepts streams, and gives the requests that come on them to
// its handler.
type StreamListener struct {
	s       *streams
	l       link.Listener
	handler func(*StreamEvent)
	backlog int

	silent list.List // of *Stream that have not asked, the oldest first
	asked  int       // streams that were not answered
	ready  bool      // there may be streams to accept
	queued bool
	closed bool
}

// ListenStream accepts streams on a port of the device's address, 0 for any.
// Handler gets the event Requested of each, which Stream.Accept or Reject
// answers, and the events of the stream from then on. At most backlog requests
// wait for an answer: more wait in the system.
func (d *Device) ListenStream(port uint16, backlog int, handler func(*StreamEvent)) (x *StreamListener, err error) {
	err = d.lanes[0].withStreams(func(s *streams, now time.Duration) (err error) {
		x = &StreamListener{s: s, handler: handler, backlog: max(backlog, 1)}
		if x.l, err = s.link.Listen(port, x.backlog, x); err != nil {
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

// Addr is the address and port.
func (x *StreamListener) Addr() netip.AddrPort { return x.l.Addr() }

// Close ends the listener, and the streams on which no request has come yet. The
// others are the user's.
func (x *StreamListener) Close() {
	_ = x.s.lane.withStreams(func(s *streams, now time.Duration) error { // a closed device has none
		x.close()
		for c := range s.open {
			if c.listener == x && !c.asking {
				c.handler = nil
				c.part(now)
			}
		}
		return nil
	})
}

func (x *StreamListener) close() {
	if x.closed {
		return
	}
	x.closed = true
	delete(x.s.listeners, x)
	_ = x.l.Close() // it is gone in any case
}

func (x *StreamListener) becameReady() {
	x.ready = true
	x.queue()
}

func (x *StreamListener) queue() {
	if x.ready && !x.queued && !x.closed && x.asked < x.backlog {
		x.queued = true
		x.s.turns.Push(x)
	}
}

// serve accepts one stream.
func (x *StreamListener) serve(now time.Duration) {
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
		// Out of descriptors, mostly. There is no telling when there are some
		// again: the next peer's coming, the next answer or the end of a stream
		// makes it try.
		x.s.lane.dev.Trace.Refuse(0, connectDetail(err, x.l.Addr().Port()))
		return
	}
	c.take(conn)
	c.listener = x
	c.silent, c.since = x.silent.PushBack(c), now
	x.s.open[c] = struct{}{}
	c.m.SetSegment(conn.Segment())
	_ = c.m.Listen(now, 0) // a new machine listens
	c.after(now)
	if x.silent.Len() > maxSilent {
		x.evict(now)
	}
	x.queue()
}

// evict ends the stream that has waited longest for its peer's request.
func (x *StreamListener) evict(now time.Duration) {
	c := x.silent.Front().Value.(*Stream)
	x.s.lane.dev.Trace.Refuse(0, reason.Detail{
		Reason: reason.MPASilent, Expected: maxSilent, Found: uint64((now - c.since) / time.Millisecond),
	})
	c.handler = nil
	c.m.Abort(now)
	c.after(now)
}
