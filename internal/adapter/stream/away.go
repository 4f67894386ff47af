package stream

import (
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
)

// An Away is a process that has queue pairs of the device's address, and drives their streams. This
// process keeps what programs share: listeners, and the requests that come on them. Methods are
// called with the lane held, and do not wait. What happens to a stream comes by Stream.Report.
type Away interface {
	// Hold is the link.Hold of the process's streams.
	Hold() (release func(), err error)

	// Dial connects a queue pair.
	Dial(c *Stream, cfg *DialConfig)

	// Accept answers a request with a queue pair. It gets the request's frame, and owns the
	// descriptor of the connection.
	Accept(c *Stream, qpn uint32, p *iwarp.Params, request []byte, fd int)

	// Disconnect ends a connection in order.
	Disconnect(c *Stream)

	// Release gives the stream up, in any state. No more reports are wanted.
	Release(c *Stream)
}

// SetAway sets the function that returns the process which has a queue pair, nil if that is this
// process.
func (s *Set) SetAway(f func(qpn uint32) Away) error {
	return s.Host.Do(func(time.Duration) error {
		s.away = f
		return nil
	})
}

// awayOf returns the process that has a queue pair, nil if that is this one.
func (s *Set) awayOf(qpn uint32) Away {
	if s.away == nil {
		return nil
	}
	return s.away(qpn)
}

// dialAway lets another process connect its queue pair.
func (s *Set) dialAway(a Away, cfg *DialConfig, handler func(*Event)) *Stream {
	c := s.newStream(handler)
	c.Context, c.away = cfg.Context, a
	with := *cfg
	with.Params = *s.params(&cfg.Params)
	a.Dial(c, &with)
	return c
}

// acceptAway lets another process answer the request with its queue pair.
func (c *Stream) acceptAway(a Away, qpn uint32, p *iwarp.Params) error {
	if !c.asking {
		return errors.New("expected a request that waits for an answer, found none")
	}
	request, at := c.m.RequestFrame(), c.conn.Local()
	fd, err := c.s.Link.(link.Mover).Move(c.raw(), a.Hold)
	if err != nil {
		return err
	}
	c.conn, c.away = nil, a
	c.local.Store(&at)
	a.Accept(c, qpn, c.s.params(p), request, fd)
	c.end(false)
	return nil
}

// Report passes on what has happened to a stream that another process drives. A valid local
// address is the stream's.
func (c *Stream) Report(e *iwarp.Event, behind error, local netip.AddrPort) {
	_ = c.s.Host.Do(func(time.Duration) error { // a closed device has no streams
		if c.handler == nil || c.ended {
			return nil
		}
		if local.IsValid() {
			c.local.Store(&local)
		}
		c.ended = e.Kind != iwarp.Established
		c.handler(&Event{Event: *e, Err: behind, On: c})
		return nil
	})
}

// Adopt answers a request on a stream that another process has accepted. It is the other side of
// Away.Accept, and owns the descriptor.
func (s *Set) Adopt(fd int, request []byte, qpn uint32, p *iwarp.Params, handler func(*Event)) (c *Stream, err error) {
	taken := false
	err = s.Host.Do(func(now time.Duration) error {
		taken = true
		c = s.newStream(handler)
		conn, err := s.Link.(link.Adopter).Adopt(fd, c)
		if err != nil {
			return err
		}
		c.setConn(conn)
		c.faulty.adopted(request)
		s.open[c] = struct{}{}
		c.m.SetSegment(conn.Segment())
		_ = c.m.Listen(now, 0) // a new machine listens
		c.m.Room(now, s.scratch)
		c.m.Filled(now, copy(s.scratch, request))
		x, err := s.find(qpn)
		if err == nil {
			err = c.accept(now, x, p)
		}
		if err != nil {
			c.handler = nil
			c.m.Abort(now)
			c.after(now)
			return err
		}
		c.pump(now)
		return nil
	})
	if !taken { // the device is closed
		s.Link.(link.Adopter).Discard(fd)
	}
	return c, err
}

// toAway calls f with the process that drives the stream, and reports whether it is another one.
func (c *Stream) toAway(f func(Away, *Stream)) (is bool) {
	_ = c.s.Host.Do(func(time.Duration) error { // a closed device has no streams
		if is = c.away != nil; is {
			f(c.away, c)
		}
		return nil
	})
	return is
}
