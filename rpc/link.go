package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/internal/waiting"
	"softrdma/rdmacm"
)

// A link is a client's end of a session. The engine's lock guards what can change.
type link struct {
	carrier.Plain
	waiting.Group
	e       *carrier.Engine
	client  *Client
	paths   []*path
	id      session.ID
	domain  *carrier.Domain
	pool    *pool
	out     carrier.Frames // requests of the slots
	server  session.Hello
	usable  atomic.Bool
	context context.Context // until the session ends
	stop    context.CancelFunc

	header    session.Header // of the frame that arrives
	conns     []*carrier.Conn
	next      int // which connection has the next request
	slots     []slot
	free      []uint16
	busy      int     // slots that are not free
	slotQueue []*want // calls that wait for a slot
	byteQueue []*want // calls that wait for bytes
	bytes     uint64  // of far requests in flight
	leaving   bool    // the server asked to use another session
	moved     string  // and said where
	err       error   // why the session has ended
	ended     bool    // no connection is left
	over      bool    // only calls that return still use the session
}

// newLink makes a session with the server at one or several addresses.
func (c *Client) newLink(ctx context.Context, addresses string) (*link, error) {
	s := &link{client: c, id: newID()}
	err := s.lay(ctx, addresses)
	if err != nil {
		s.unlay()
		return nil, err
	}
	s.pool = newPool(s.domain)
	s.context, s.stop = context.WithCancel(context.Background())
	err = s.dialAll(ctx)
	c.remember(s)
	if err != nil {
		s.shut(err)
		return nil, err
	}
	s.usable.Store(true)
	s.e.Ending.Add(1)
	go func() {
		defer s.e.Ending.Done()
		s.Idle(s.context)
	}()
	return s, nil
}

// dial adds a connection on a path. The first one makes the session.
func (s *link) dial(ctx context.Context, p *path) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.ConnectTimeout)
	defer cancel()
	on, err := s.open(ctx, p)
	if err != nil {
		return err
	}
	first := s.slots == nil
	d := s.dialer(p)
	ep, err := d.Resolve(ctx, p.to)
	if err != nil {
		return refusal(p.address, err)
	}
	cfg := &s.client.cfg
	slots := cfg.Calls
	if !first {
		slots = len(s.slots)
	}
	setup := carrier.ConnConfig{Owner: s, Domain: s.domain, Rail: on, Receives: cfg.Calls + carrier.SpareReceives, Frame: cfg.Inline + session.HeaderLen,
		Slots: controlFrames, Size: controlLen, Queue: carrier.FarQueue, Out: &s.out, OutSlots: slots, Timeout: cfg.PeerTimeout}
	c, err := s.e.NewConn(setup, ep.CreateQP)
	if err == nil {
		hello := session.Hello{Resume: !first, ID: s.id, Frame: uint32(setup.Frame), Receives: uint16(setup.Receives), Slots: uint16(slots), Body: uint64(cfg.MaxBody)}
		c.CM, err = ep.Connect(ctx, rdmacm.ConnParam{PrivateData: hello.Request(), ResponderResources: carrier.ReadDepth, InitiatorDepth: carrier.ReadDepth})
		if err != nil {
			err = refusal(p.address, err)
		}
	}
	if c.CM == nil {
		_ = ep.Close() // the first error counts
	} else {
		err = s.join(c, p, &setup, first)
	}
	if err != nil {
		c.Discard()
	}
	return err
}

// join begins to use a connection.
func (s *link) join(c *carrier.Conn, p *path, setup *carrier.ConnConfig, first bool) error {
	h, err := session.ParseReply(c.CM.PrivateData())
	switch {
	case err != nil:
	case first && int(h.Slots) > setup.OutSlots:
		err = fmt.Errorf("%w: %d slots, asked for %d", ErrProtocol, h.Slots, setup.OutSlots)
	case first:
		s.server = h
		s.out, err = s.domain.Frames(int(h.Slots), int(h.Frame), 0, setup.Rail)
		s.slots = make([]slot, h.Slots)
		for i := range s.slots {
			s.free = append(s.free, uint16(i))
		}
	case h.ID != s.server.ID || h.Slots != s.server.Slots || h.Frame != s.server.Frame:
		err = fmt.Errorf("%w: the server is another one than before", ErrOutcomeUnknown)
	}
	if err != nil {
		return err
	}
	s.e.Lock()
	defer s.e.Unlock()
	if s.err != nil {
		return s.err
	}
	s.conns = append(s.conns, c)
	p.conns = append(p.conns, c)
	p.joined = time.Now()
	c.Start(c.CM, session.NewFlow(setup.Receives, int(h.Receives)))
	s.resend()
	s.e.Flush()
	return nil
}

// successor returns the address that the server named when it asked to use another session.
func (s *link) successor() string {
	s.e.Lock()
	defer s.e.Unlock()
	return s.moved
}

// Released implements carrier.Owner.
func (s *link) Released(c *carrier.Conn) {
	of := s.paths[slices.IndexFunc(s.paths, func(p *path) bool { return slices.Contains(p.conns, c) })]
	of.conns = without(of.conns, c)
	s.conns = without(s.conns, c)
	for i := range s.slots {
		x := &s.slots[i]
		if x.conn == c {
			x.conn = nil
		}
		s.settle(i)
	}
	s.resend()
	switch {
	case s.err != nil:
		s.finish()
	case errors.Is(c.Err, ErrProtocol) || s.e.Dead() != nil:
		s.fail(c.Err)
	default:
		s.reconnect(of)
	}
}

// without removes a connection from a list.
func without(list []*carrier.Conn, c *carrier.Conn) []*carrier.Conn {
	return slices.DeleteFunc(list, func(x *carrier.Conn) bool { return x == c })
}

// fail ends the session. The caller holds the lock.
func (s *link) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.usable.Store(false)
	s.stop()
	for _, c := range slices.Clone(s.conns) {
		c.Fail(err)
	}
	for i := range s.slots {
		x := &s.slots[i]
		switch {
		case !x.busy || x.answered:
			continue
		case !x.sent && errors.Is(err, ErrUnreachable):
			x.err = err
		case !x.sent:
			x.err = errUnsent
		case errors.Is(err, ErrClosed), errors.Is(err, ErrOutcomeUnknown):
			x.err = err
		default:
			x.err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		s.resolve(i)
	}
	s.feed()
	s.finish()
}

// finish ends what is left of a session when its last connection has gone. The caller holds the
// lock.
func (s *link) finish() {
	if s.ended || len(s.conns) > 0 {
		return
	}
	s.ended = true
	go func() {
		_ = s.e.Close() // nothing of the session is left
		s.pool.close()
		s.e.Lock()
		s.over = true
		s.release()
		s.e.Unlock()
		s.unlay()
		s.client.forget(s)
	}()
}

// release frees the slots' memory when no call uses it. The caller holds the lock.
func (s *link) release() {
	if s.over && s.busy == 0 && s.domain != nil {
		s.out.Free()
		s.domain.Release()
		s.domain = nil
	}
}

// byeTime bounds how long a client waits until its last frames have left.
const byeTime = 100 * time.Millisecond

// shut ends the session and tells the server.
func (s *link) shut(err error) {
	e := s.e
	e.Lock()
	defer e.Unlock()
	if s.err != nil {
		return
	}
	s.usable.Store(false)
	if len(s.conns) > 0 {
		c := s.conns[0]
		tell(c, session.Header{Kind: session.Bye}, nil)
		e.Flush()
		for end := time.Now().Add(byeTime); c.Err == nil && c.Busy() && time.Now().Before(end); {
			e.Unlock()
			time.Sleep(20 * time.Microsecond)
			e.Lock()
			e.Progress()
		}
	}
	s.fail(err)
}
