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
	over      bool    // nobody but calls that return uses the session any more
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
	setup := carrier.ConnConfig{Owner: s, Domain: s.domain, Rail: on, Tag: p, Out: &s.out, Slots: slots, Frame: cfg.Inline + session.HeaderLen, Receives: cfg.Calls + carrier.SpareReceives, Timeout: cfg.PeerTimeout}
	c, err := s.e.NewConn(&setup, ep.CreateQP)
	if err == nil {
		hello := session.Hello{Resume: !first, ID: s.id, Frame: uint32(setup.Frame), Receives: uint16(setup.Receives), Slots: uint16(slots), Body: uint64(cfg.MaxBody)}
		c.CM, err = ep.Connect(ctx, rdmacm.ConnParam{PrivateData: hello.Request()})
		if err != nil {
			err = refusal(p.address, err)
		}
	}
	if c.CM == nil {
		_ = ep.Close() // the first error counts
	} else {
		err = s.join(c, &setup, first)
	}
	if err != nil {
		c.Discard()
	}
	return err
}

// join begins to use a connection.
func (s *link) join(c *carrier.Conn, setup *carrier.ConnConfig, first bool) error {
	cm := c.CM
	h, err := session.ParseReply(cm.PrivateData())
	switch {
	case err != nil:
	case first && int(h.Slots) > setup.Slots:
		err = fmt.Errorf("%w: %d slots, asked for %d", ErrProtocol, h.Slots, setup.Slots)
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
		_ = cm.Close()
		return err
	}
	s.e.Lock()
	defer s.e.Unlock()
	if s.err != nil {
		s.e.Unlock()
		_ = cm.Close()
		s.e.Lock()
		return s.err
	}
	s.conns = append(s.conns, c)
	c.Tag.(*path).conns++
	c.Start(cm, setup.Receives, int(h.Receives))
	s.resend()
	return nil
}

// successor returns the address that the server named when it asked to use another session.
func (s *link) successor() string {
	s.e.Lock()
	defer s.e.Unlock()
	return s.moved
}

// Broken implements carrier.Owner.
func (s *link) Broken(c *carrier.Conn) {
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
		c.Tag.(*path).conns--
	}
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
		s.reconnect(c.Tag.(*path))
	}
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
		s.e.Close()
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
		c.Tell(session.Header{Kind: session.Bye}, nil)
		for end := time.Now().Add(byeTime); c.Err == nil && c.Telling() && time.Now().Before(end); {
			e.Unlock()
			time.Sleep(20 * time.Microsecond)
			e.Lock()
			e.Progress()
		}
	}
	s.fail(err)
}
