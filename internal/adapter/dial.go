package adapter

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/machine"
)

// A DialConfig says whom to connect and with what.
type DialConfig struct {
	Port    uint16 // of this end; 0 takes any
	Dst     netip.AddrPort
	TOS     uint8
	QPN     uint32 // of the queue pair that is to be connected, in INIT or RTR
	Params  iwarp.Params
	Context any
}

// Dial connects a queue pair to a peer. How that went comes as an event:
// Established, Rejected, or Refused for a reason of the network's or of the
// set-up's.
func (d *Device) Dial(cfg *DialConfig, handler func(*StreamEvent)) (c *Stream, err error) {
	err = d.lane.withStreams(func(s *streams, now time.Duration) error {
		x, err := s.lane.connectable(cfg.QPN)
		if err != nil {
			return err
		}
		c = s.newStream(handler)
		c.Context, c.dialing, c.port = cfg.Context, true, cfg.Dst.Port()
		if err := c.m.Connect(now, x.m, &cfg.Params); err != nil {
			return err
		}
		c.join(x)
		if c.conn, err = s.link.Dial(cfg.Port, cfg.Dst, cfg.TOS, c); err != nil {
			c.fail(now, err)
			return nil
		}
		s.open[c] = struct{}{}
		c.after(now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connectable finds a queue pair that can be connected by a stream.
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
	c.task = QP{lane: s.lane, m: (*streamTask)(c), timer: -1, due: machine.Never}
	return c
}

// fail ends a stream that could not be connected.
func (c *Stream) fail(now time.Duration, err error) {
	d := connectDetail(err, c.port)
	c.m.Abort(now)
	c.event(&iwarp.Event{Kind: iwarp.Refused, Stream: c.m, Detail: d})
	c.s.lane.dev.Trace.Refuse(c.qpn(), d)
	c.end(true)
}

func (c *Stream) connects(now time.Duration) {
	switch err := c.conn.Connected(); err {
	case nil:
		c.dialing = false
	case link.ErrWouldBlock:
		c.writable = false
	default:
		c.fail(now, err)
	}
}
