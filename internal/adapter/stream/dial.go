package stream

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/object"
	"softrdma/internal/reason"
	wire "softrdma/internal/wire/iwarp"
)

// A DialConfig describes a connection to make.
type DialConfig struct {
	Port    uint16 // local; 0 takes any
	Dst     netip.AddrPort
	TOS     uint8
	QPN     uint32 // of the queue pair to connect, in INIT or RTR
	Params  iwarp.Params
	Context any
}

// Dial connects a queue pair to a peer. An event has the result: Established, Rejected,
// or Refused for a reason of the network or of the set-up. A peer that knows only MPA's
// revision 1 closes the connection on a request of revision 2 (RFC 6581 10). Unless Params
// names a revision, Dial then connects once more with revision 1, from another port if
// Port is 0.
func (s *Set) Dial(cfg *DialConfig, handler func(*Event)) (c *Stream, err error) {
	err = s.Host.Do(func(now time.Duration) error {
		if a := s.awayOf(cfg.QPN); a != nil {
			c = s.dialAway(a, cfg, handler)
			return nil
		}
		x, err := s.find(cfg.QPN)
		if err != nil {
			return err
		}
		c = s.newStream(handler)
		c.Context, c.dialing, c.port = cfg.Context, true, cfg.Dst.Port()
		if err := c.m.Connect(now, x.m, s.params(&cfg.Params)); err != nil {
			return err
		}
		c.join(x)
		if cfg.Params.Revision == 0 {
			c.fallback = &fallback{cfg: *cfg}
			c.fallback.cfg.Params.Private = bytes.Clone(cfg.Params.Private)
		}
		c.connect(now, cfg)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect makes the connection for the machine's request.
func (c *Stream) connect(now time.Duration, cfg *DialConfig) {
	conn, err := c.s.Link.Dial(cfg.Port, cfg.Dst, cfg.TOS, c)
	if err != nil {
		c.fail(now, err)
		return
	}
	c.setConn(conn)
	c.s.open[c] = struct{}{}
	c.after(now)
}

// A fallback is the request of revision 1 that follows if the peer closes on that of
// revision 2.
type fallback struct {
	cfg DialConfig
	due bool
}

// redial sends a request of revision 1 on a new connection to a peer that closed the
// first one. Linux's drivers of hardware do so as well; its siw does not.
func (c *Stream) redial(now time.Duration) {
	cfg := &c.fallback.cfg
	cfg.Params.Revision = wire.Revision1
	c.fallback, c.cause = nil, nil
	_ = c.conn.Close() // its peer has gone
	c.conn, c.dialing, c.readable, c.hangup, c.writable, c.unsent, c.held = nil, true, false, false, false, nil, 0
	c.s.Host.Refuse(c.qpn(), reason.Detail{Reason: reason.MPAFallback, Expected: wire.Revision2, Found: wire.Revision1})
	c.m = iwarp.NewStream(&c.s.pool, c.event)
	if err := c.m.Connect(now, c.qp.m, c.s.params(&cfg.Params)); err != nil {
		c.fail(now, err)
		return
	}
	c.connect(now, cfg)
}

// params returns the parameters of a connection with those that the device sets for all.
func (s *Set) params(p *iwarp.Params) *iwarp.Params {
	with := *p
	with.NoCRC, with.Markers = p.NoCRC || s.NoCRC, p.Markers || s.Markers
	return &with
}

// find returns the queue pair that a stream is to connect.
func (s *Set) find(qpn uint32) (*QP, error) {
	if x := s.Host.StreamQP(qpn); x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("no queue pair %#06x to connect: %w", qpn, object.ErrDestroyed)
}

func (s *Set) newStream(handler func(*Event)) *Stream {
	c := &Stream{s: s, handler: handler}
	c.m = iwarp.NewStream(&s.pool, c.event)
	c.entry.Init((*task)(c))
	return c
}

// fail ends a stream that could not be connected.
func (c *Stream) fail(now time.Duration, err error) {
	d := connectDetail(err, c.port)
	if c.refused.Reason != reason.None { // it says more than that the listener has gone
		d = c.refused
	}
	if f := (*link.Failure)(nil); errors.As(err, &f) {
		c.cause = f
	}
	c.m.Abort(now)
	c.event(&iwarp.Event{Kind: iwarp.Refused, Stream: c.m, Detail: d})
	c.s.Host.Refuse(c.qpn(), d)
	c.end(true)
}

// dialled follows a dialled connection that became writable.
func (c *Stream) dialled(now time.Duration) {
	switch err := c.conn.Connected(); err {
	case nil:
		c.dialing = false
		c.m.SetSegment(c.conn.Segment())
	case link.ErrWouldBlock:
		c.writable = false
	default:
		c.fail(now, err)
	}
}

// connectDetail returns why a stream could not be connected.
func connectDetail(err error, port uint16) reason.Detail {
	var f *link.Failure
	if errors.As(err, &f) {
		return f.Detail
	}
	d := reason.Detail{Reason: reason.ConnectFailed, Expected: uint64(port)}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
		if no == syscall.ECONNREFUSED {
			d.Reason = reason.ConnectRefused
		}
	}
	return d
}
