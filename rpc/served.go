package rpc

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A served is a server's end of a session. The engine's lock guards it.
type served struct {
	carrier.Plain
	port   *port
	id     session.ID
	client session.Hello
	peer   netip.AddrPort // of its first connection
	frame  int            // bytes of an answer's frame
	domain *carrier.Domain
	pool   *pool
	out    carrier.Frames // answers of the slots

	header  session.Header // of the frame that arrives
	conns   []*carrier.Conn
	joining int // conns and those that are being made
	table   session.Table
	tasks   []task
	bytes   uint64 // of far requests
	owed    uint64 // of far answers that the client has not read
	busy    int    // tasks that run or fetch
	leaving bool
	ended   bool
	expiry  *time.Timer
}

// frameOf returns the size of the answers' frames for a client.
func frameOf(srv *Server, h *session.Hello) int {
	return min(int(h.Frame), srv.cfg.Inline+session.HeaderLen)
}

func (p *port) newServed(r *carrier.Rail, h *session.Hello, peer netip.AddrPort) (*served, error) {
	n := min(int(h.Slots), p.srv.cfg.Calls)
	s := &served{port: p, id: h.ID, client: *h, peer: peer, frame: frameOf(p.srv, h), table: session.NewTable(n), tasks: make([]task, n)}
	var err error
	if s.domain, err = carrier.NewDomain(r); err != nil {
		return nil, err
	}
	s.pool = newPool(s.domain)
	if s.out, err = s.domain.Frames(n, s.frame, 0, r); err != nil {
		s.pool.close()
		s.domain.Release()
		return nil, err
	}
	for i := range s.tasks {
		s.tasks[i] = task{owner: s, slot: uint16(i)}
	}
	return s, nil
}

// enter counts a connection that is being made.
func (s *served) enter() {
	s.joining++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
}

// left counts a connection that was not made.
func (s *served) left() {
	s.port.e.Lock()
	defer s.port.e.Unlock()
	s.exit()
}

// exit counts a connection that has gone.
func (s *served) exit() {
	s.joining--
	switch {
	case s.joining > 0:
	case s.ended:
		s.free()
	case s.expiry == nil:
		var t *time.Timer
		t = time.AfterFunc(s.port.srv.cfg.SessionTimeout, func() {
			s.port.e.Lock()
			defer s.port.e.Unlock()
			if s.expiry == t {
				s.end(fmt.Errorf("%w: it did not come back", ErrOutcomeUnknown))
			}
		})
		s.expiry = t
	}
}

// join begins to serve a connection.
func (s *served) join(c *carrier.Conn, cm *rdmacm.Conn, own, peer int) {
	s.port.e.Lock()
	defer s.port.e.Unlock()
	s.conns = append(s.conns, c)
	c.Start(cm, session.NewFlow(own, peer))
	if s.ended {
		c.Fail(ErrClosed)
		return
	}
	if s.leaving {
		s.leaving = false
		s.leave(*s.port.leaving)
	}
	s.port.e.Flush()
	s.port.Signal(&s.port.work)
}

// leave asks the client to use another session.
func (s *served) leave(address string) {
	s.leaving = true
	for _, c := range s.conns {
		tell(c, session.Header{Kind: session.Leave}, []byte(address))
	}
}

// end ends the session. It closes all connections and cancels all tasks.
func (s *served) end(err error) {
	if s.ended {
		return
	}
	s.ended = true
	delete(s.port.sessions, s.id)
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	for _, c := range slices.Clone(s.conns) {
		c.Fail(err)
	}
	for i := range s.tasks {
		t := &s.tasks[i]
		switch t.state {
		case taskRunning:
			t.cancel()
		case taskBroken:
			t.state = taskIdle
			s.busy--
		}
	}
	if s.joining == 0 {
		s.free()
	}
	s.port.srv.exitLater()
}

// free frees the session's memory when it is no longer in use.
func (s *served) free() {
	if s.busy > 0 || s.domain == nil {
		return
	}
	for i := range s.tasks {
		s.tasks[i].drop()
	}
	s.out.Free()
	s.pool.close()
	s.domain.Release()
	s.domain = nil
}

// Released implements carrier.Owner. Answers that left by the connection may be lost, and leave once more by another one: the
// client does not ask again if that one has brought another copy of the request.
func (s *served) Released(c *carrier.Conn) {
	s.conns = without(s.conns, c)
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.conn != c {
			continue
		}
		t.conn = nil
		if t.state == taskAnswered {
			t.repeat()
		}
	}
	s.port.report(s, c.Err)
	s.exit()
}

// Sent implements carrier.Owner.
func (s *served) Sent(_ *carrier.Conn, i int) {
	t := &s.tasks[i]
	if t.posts--; t.posts > 0 {
		return
	}
	switch {
	case t.state == taskWaiting && t.loaded:
		s.port.enqueue(t)
	case t.again:
		t.again = false
		t.send()
	}
}

// Arrive implements carrier.Owner.
func (s *served) Arrive(c *carrier.Conn, frame []byte, at int) (keep bool, err error) {
	h := &s.header
	var body []byte
	if *h, body, err = session.Parse(frame); err != nil {
		return false, err
	}
	switch h.Kind {
	case session.Request:
		return s.request(c, h, body, at)
	case session.Cancel:
		if t := s.current(h); t != nil && t.state != taskAnswered {
			t.cancel()
		}
	case session.Done:
		if t := s.current(h); t != nil && t.state == taskAnswered && t.posts == 0 {
			t.done = true
			t.drop()
		}
	case session.Bye:
		s.end(ErrClosed)
	case session.Credit:
	default:
		return false, fmt.Errorf("%w: a frame %q from a client", ErrProtocol, h.Kind)
	}
	return false, nil
}

func (s *served) current(h *session.Header) *task {
	if !s.table.Current(h.Slot, h.Sequence) {
		return nil
	}
	return &s.tasks[h.Slot]
}

// request takes a request.
func (s *served) request(c *carrier.Conn, h *session.Header, body []byte, at int) (keep bool, err error) {
	verdict, err := s.table.Request(h.Slot, h.Sequence)
	if err != nil || s.ended {
		return false, err
	}
	t := &s.tasks[h.Slot]
	switch verdict {
	case session.New:
		t.drop()
		s.busy++
		return t.take(c, h, body, at)
	case session.Running:
		t.conn = c
		t.address, t.key = h.Address, h.Key
		if h.Flags&session.Canceled != 0 {
			t.cancel()
		}
		if t.state == taskBroken {
			t.fetch(c)
		}
	case session.Answered:
		t.conn = c
		t.repeat()
	}
	return false, nil
}

// Local implements carrier.Mover.
func (s *served) Local(c *carrier.Conn, m carrier.Move) (verbs.SGE, error) {
	return s.tasks[m.Slot].in.local(c, m)
}

// Moved implements carrier.Mover.
func (s *served) Moved(c *carrier.Conn, m carrier.Move, err error) {
	t := &s.tasks[m.Slot]
	switch {
	case err == nil:
		t.body = t.in.Bytes()
		t.load()
	case s.ended:
		t.state = taskIdle
		s.busy--
	case t.conn != nil && t.conn != c && t.conn.Err == nil:
		t.fetch(t.conn)
	default:
		t.state = taskBroken
	}
}
