package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
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
func (d *Device) Dial(cfg *DialConfig, handler func(*StreamEvent)) (c *Stream, err error) {
	err = d.lanes[0].withStreams(func(s *streams, now time.Duration) error {
		x, err := s.lane.connectable(cfg.QPN)
		if err != nil {
			return err
		}
		c = s.newStream(handler)
		c.Context, c.dialing, c.port = cfg.Context, true, cfg.Dst.Port()
		if err := c.m.Connect(now, x.m, d.wishes(&cfg.Params)); err != nil {
			return err
		}
		c.join(x)
		if cfg.Params.Revision == 0 {
			c.again = &again{cfg: *cfg}
			c.again.cfg.Params.Private = bytes.Clone(cfg.Params.Private)
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
	conn, err := c.s.link.Dial(cfg.Port, cfg.Dst, cfg.TOS, c)
	if err != nil {
		c.fail(now, err)
		return
	}
	c.take(conn)
	c.s.open[c] = struct{}{}
	c.after(now)
}

// An again holds what a second request, of revision 1, needs.
type again struct {
	cfg DialConfig
	due bool
}

// redial sends a request of revision 1 on a new connection to a peer that closed the
// first one. Linux's drivers of hardware do so as well; its siw does not.
func (c *Stream) redial(now time.Duration) {
	cfg := &c.again.cfg
	cfg.Params.Revision = wire.Revision1
	c.again, c.cause = nil, nil
	_ = c.conn.Close() // its peer has gone
	c.conn, c.dialing, c.readable, c.hangup, c.writable, c.unsent = nil, true, false, false, false, nil
	c.s.lane.dev.Trace.Refuse(c.qpn(), reason.Detail{Reason: reason.MPAFallback, Expected: wire.Revision2, Found: wire.Revision1})
	c.m = iwarp.NewStream(&c.s.pool, c.event)
	if err := c.m.Connect(now, c.qp.m.(*connected).m, c.s.lane.dev.wishes(&cfg.Params)); err != nil {
		c.fail(now, err)
		return
	}
	c.connect(now, cfg)
}

// wishes returns the parameters of a connection with those that the device sets for all.
func (d *Device) wishes(p *iwarp.Params) *iwarp.Params {
	with := *p
	with.NoCRC, with.Markers = p.NoCRC || d.cfg.NoCRC, p.Markers || d.cfg.Markers
	return &with
}

// connectable finds a queue pair to connect.
func (l *lane) connectable(qpn uint32) (*connected, error) {
	q := l.qps[qpn]
	if q == nil {
		return nil, fmt.Errorf("no queue pair %#06x to connect: %w", qpn, ErrDestroyed)
	}
	return q.m.(*connected), nil
}

func (s *streams) newStream(handler func(*StreamEvent)) *Stream {
	c := &Stream{s: s, handler: handler}
	c.m = iwarp.NewStream(&s.pool, c.event)
	c.entry.Init((*streamTask)(c))
	return c
}

// fail ends a stream that could not be connected.
func (c *Stream) fail(now time.Duration, err error) {
	d := connectDetail(err, c.port)
	if c.first.Reason != reason.None { // says more than that nobody listens any more
		d = c.first
	}
	if f := (*link.Failure)(nil); errors.As(err, &f) {
		c.cause = f
	}
	c.m.Abort(now)
	c.event(&iwarp.Event{Kind: iwarp.Refused, Stream: c.m, Detail: d})
	c.s.lane.dev.Trace.Refuse(c.qpn(), d)
	c.end(true)
}

func (c *Stream) connects(now time.Duration) {
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
