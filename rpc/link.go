package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"softrdma/internal/session"
	"softrdma/rdmacm"
	"softrdma/rpc/internal/waiting"
)

// A link is a client's end of a session. The engine's lock guards what can change.
type link struct {
	waiting.Group
	e       *engine
	client  *Client
	paths   []*path
	id      session.ID
	domain  *domain
	pool    *pool
	out     frames // requests of the slots
	server  session.Hello
	usable  atomic.Bool
	context context.Context // until the session ends
	stop    context.CancelFunc

	conns     []*conn
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
	s.e.ending.Add(1)
	go func() {
		defer s.e.ending.Done()
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
	ep, err := d.Resolve(ctx, p.address)
	if err != nil {
		return refusal(p.address, err)
	}
	cfg := &s.client.cfg
	slots := cfg.Calls
	if !first {
		slots = len(s.slots)
	}
	setup := connConfig{owner: s, domain: s.domain, rail: on, path: p, out: &s.out, slots: slots, frame: cfg.Inline + session.HeaderLen, receives: cfg.Calls + spareRecv, timeout: cfg.PeerTimeout}
	c, err := s.e.newConn(&setup, ep.CreateQP)
	if err == nil {
		hello := session.Hello{Resume: !first, ID: s.id, Frame: uint32(setup.frame), Receives: uint16(setup.receives), Slots: uint16(slots), Body: uint64(cfg.MaxBody)}
		c.cm, err = ep.Connect(ctx, rdmacm.ConnParam{PrivateData: hello.Request()})
		if err != nil {
			err = refusal(p.address, err)
		}
	}
	if c.cm == nil {
		_ = ep.Close() // the first error counts
	} else {
		err = s.join(c, &setup, first)
	}
	if err != nil {
		c.discard()
	}
	return err
}

// join begins to use a connection.
func (s *link) join(c *conn, setup *connConfig, first bool) error {
	cm := c.cm
	h, err := session.ParseReply(cm.PrivateData())
	switch {
	case err != nil:
	case first && int(h.Slots) > setup.slots:
		err = fmt.Errorf("%w: %d slots, asked for %d", ErrProtocol, h.Slots, setup.slots)
	case first:
		s.server = h
		s.out, err = s.domain.frames(int(h.Slots), int(h.Frame), 0, setup.rail)
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
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.err != nil {
		s.e.mu.Unlock()
		_ = cm.Close()
		s.e.mu.Lock()
		return s.err
	}
	s.conns = append(s.conns, c)
	c.path.conns++
	c.start(cm, setup.receives, int(h.Receives))
	s.resend()
	return nil
}

// successor returns the address that the server named when it asked to use another session.
func (s *link) successor() string {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.moved
}

// broken implements owner.
func (s *link) broken(c *conn) {
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
		c.path.conns--
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
	case errors.Is(c.err, ErrProtocol) || s.e.dead != nil:
		s.fail(c.err)
	default:
		s.mend(c.path)
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
		c.fail(err)
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
		s.e.close()
		s.pool.close()
		s.e.mu.Lock()
		s.over = true
		s.release()
		s.e.mu.Unlock()
		s.unlay()
		s.client.forget(s)
	}()
}

// release frees the slots' memory when no call uses it. The caller holds the lock.
func (s *link) release() {
	if s.over && s.busy == 0 && s.domain != nil {
		s.out.free()
		s.domain.release()
		s.domain = nil
	}
}

// byeTime bounds how long a client waits until its last frames have left.
const byeTime = 100 * time.Millisecond

// shut ends the session and tells the server.
func (s *link) shut(err error) {
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.err != nil {
		return
	}
	s.usable.Store(false)
	if len(s.conns) > 0 {
		c := s.conns[0]
		c.tell(session.Header{Kind: session.Bye}, nil)
		for end := time.Now().Add(byeTime); c.err == nil && len(c.free) < notes && time.Now().Before(end); {
			e.mu.Unlock()
			time.Sleep(20 * time.Microsecond)
			e.mu.Lock()
			e.progress()
		}
	}
	s.fail(err)
}
