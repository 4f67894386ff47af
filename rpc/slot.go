package rpc

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/internal/waiting"
	"softrdma/verbs"
)

// A slot is a place for one call in flight.
type slot struct {
	waiting.Waiter
	busy      bool
	sequence  uint32 // of the last call
	oneWay    bool
	abandoned bool // the caller has stopped waiting for the answer
	sent      bool // a connection has had the request
	answered  bool
	reading   bool          // an answer
	conn      *carrier.Conn // that has the last copy of the request; nil: to be sent
	n         int           // bytes of the request's frame; 0 while it is written
	posts     int           // copies of the request in flight
	body      *Buffer
	bytes     uint64 // of body

	code   Code
	in     *carrier.Conn // with the receive that has the answer; nil if it is far
	at     int
	answer []byte
	extra  []byte // headers
	far    *Buffer
	err    error
}

// A want is a call that waits for a slot, or for bytes.
type want struct {
	waiting.Waiter
	slot  int
	bytes uint64
	err   error
}

// begin takes a slot.
func (s *link) begin(ctx context.Context) (int, error) {
	s.e.Lock()
	defer s.e.Unlock()
	switch {
	case s.err != nil || s.leaving:
		return 0, errUnsent
	case len(s.free) > 0 && len(s.slotQueue) == 0:
		return s.take(), nil
	}
	return s.enqueue(ctx, &s.slotQueue, &want{})
}

// take takes a free slot.
func (s *link) take() int {
	i := int(s.free[len(s.free)-1])
	s.free = s.free[:len(s.free)-1]
	s.busy++
	x := &s.slots[i]
	w := x.Waiter
	w.Renew()
	*x = slot{Waiter: w, busy: true, sequence: x.sequence + 1}
	return i
}

// enqueue waits in a queue until feed has given the call what it wants. The caller holds the lock.
func (s *link) enqueue(ctx context.Context, queue *[]*want, w *want) (int, error) {
	if s.client.cfg.NoWait {
		return 0, ErrBusy
	}
	*queue = append(*queue, w)
	err := s.Await(ctx, &w.Waiter)
	if err != nil {
		i := slices.Index(*queue, w)
		*queue = slices.Delete(*queue, i, i+1)
		s.feed() // those behind it may want less
		return 0, err
	}
	return w.slot, w.err
}

// feed gives slots and bytes to the calls that wait for them, in order. Calls that wait for bytes
// have slots, so there is a queue for each. The caller holds the lock.
func (s *link) feed() {
	for len(s.byteQueue) > 0 {
		w := s.byteQueue[0]
		if s.err != nil {
			w.err = errUnsent
		} else if s.bytes+w.bytes > s.server.Bytes {
			break
		} else {
			s.spend(w.slot, w.bytes)
		}
		s.byteQueue = slices.Delete(s.byteQueue, 0, 1)
		s.Signal(&w.Waiter)
	}
	for len(s.slotQueue) > 0 {
		w := s.slotQueue[0]
		if s.err != nil || s.leaving {
			w.err = errUnsent
		} else if len(s.free) == 0 {
			break
		} else {
			w.slot = s.take()
		}
		s.slotQueue = slices.Delete(s.slotQueue, 0, 1)
		s.Signal(&w.Waiter)
	}
}

// spend counts the bytes of a far request.
func (s *link) spend(i int, n uint64) {
	s.bytes += n
	s.slots[i].bytes = n
}

// grant waits until n more bytes may be in flight.
func (s *link) grant(ctx context.Context, i int, n uint64) error {
	s.e.Lock()
	defer s.e.Unlock()
	switch {
	case s.err != nil:
		return errUnsent
	case s.bytes+n <= s.server.Bytes && len(s.byteQueue) == 0:
		s.spend(i, n)
		return nil
	}
	_, err := s.enqueue(ctx, &s.byteQueue, &want{slot: i, bytes: n})
	return err
}

// submit sends the request of n bytes in a slot's frame. The caller holds the lock.
func (s *link) submit(i, n int) {
	x := &s.slots[i]
	x.n = n
	if s.err != nil { // after the call had begun
		x.err = errUnsent
		s.resolve(i)
		return
	}
	s.send(i)
	s.e.Flush()
}

// send sends the request of a slot, or leaves that to resend if there is no connection.
func (s *link) send(i int) {
	c := s.pick()
	if c == nil {
		return
	}
	x := &s.slots[i]
	if x.abandoned && !x.oneWay {
		session.SetFlag(s.out.Bytes(i), session.Canceled)
	}
	x.conn, x.sent = c, true
	x.posts++
	send(c, i, x.n, s.out.Bytes(i), x.body)
}

// pick returns the connection for the next request, nil if there is none.
func (s *link) pick() *carrier.Conn {
	for range s.conns {
		s.next++
		if c := s.conns[s.next%len(s.conns)]; c.Err == nil {
			return c
		}
	}
	return nil
}

// resend sends the requests that no connection has. The caller holds the lock.
func (s *link) resend() {
	for i := range s.slots {
		x := &s.slots[i]
		if x.busy && !x.answered && x.err == nil && x.conn == nil && x.n > 0 && x.posts == 0 && !x.reading {
			s.send(i)
		}
	}
}

// Sent implements carrier.Owner.
func (s *link) Sent(_ *carrier.Conn, i int) {
	s.slots[i].posts--
	s.settle(i)
}

// Arrive implements carrier.Owner.
func (s *link) Arrive(c *carrier.Conn, frame []byte, at int) (keep bool, err error) {
	h := &s.header
	var body []byte
	if *h, body, err = session.Parse(frame); err != nil {
		return false, err
	}
	switch h.Kind {
	case session.Answer:
		if x := s.asked(h.Slot, h.Sequence); x != nil {
			return s.answer(c, x, h, body, at)
		}
	case session.Taken:
		for ; len(body) > 0; body = body[session.PlaceLen:] {
			p := session.ParsePlace(body)
			if x := s.asked(p.Slot, p.Sequence); x != nil {
				s.resolve(int(p.Slot))
			}
		}
	case session.Leave:
		if len(body) > session.MaxAddress {
			return false, fmt.Errorf("%w: an address of %d bytes", ErrProtocol, len(body))
		}
		s.leave(string(body))
	case session.Credit:
	default:
		return false, fmt.Errorf("%w: a frame %q from a server", ErrProtocol, h.Kind)
	}
	return false, nil
}

// asked returns the slot of a call that has no answer yet, nil if there is none with this number.
func (s *link) asked(i uint16, sequence uint32) *slot {
	if int(i) >= len(s.slots) {
		return nil
	}
	x := &s.slots[i]
	if !x.busy || x.answered || x.reading || x.err != nil || x.sequence != sequence || x.n == 0 {
		return nil
	}
	return x
}

// answer takes an answer, or begins to read it.
func (s *link) answer(c *carrier.Conn, x *slot, h *session.Header, body []byte, at int) (keep bool, err error) {
	i := int(h.Slot)
	x.code = Code(h.Number)
	switch {
	case h.Length > uint64(s.client.cfg.MaxBody):
		return false, fmt.Errorf("%w: an answer of %d bytes, this client accepts %d", ErrProtocol, h.Length, s.client.cfg.MaxBody)
	case x.abandoned:
		if h.Flags&session.Far != 0 {
			tell(c, session.Header{Kind: session.Done, Slot: h.Slot, Sequence: h.Sequence}, nil)
		}
		s.resolve(i)
	case h.Flags&session.Far != 0:
		b, err := s.pool.get(int(h.Length))
		if err != nil {
			x.err = err
			s.resolve(i)
			return false, nil
		}
		x.far, x.reading, x.extra = b, true, bytes.Clone(h.Extra(body))
		c.Move(carrier.Move{By: s, Slot: i, Data: b.Bytes(), Address: h.Address, Key: h.Key})
	default:
		x.in, x.at, x.answer, x.extra = c, at, body, h.Extra(body)
		s.resolve(i)
		return true, nil
	}
	return false, nil
}

// Local implements carrier.Mover.
func (s *link) Local(c *carrier.Conn, m carrier.Move) (verbs.SGE, error) {
	return s.slots[m.Slot].far.local(c, m)
}

// Moved implements carrier.Mover.
func (s *link) Moved(c *carrier.Conn, m carrier.Move, err error) {
	i := m.Slot
	x := &s.slots[i]
	x.reading = false
	if err != nil { // the connection breaks, and the request is sent again
		x.far.Release()
		x.far = nil
		s.settle(i)
		return
	}
	tell(c, session.Header{Kind: session.Done, Slot: uint16(i), Sequence: x.sequence}, nil)
	s.resolve(i)
}

// resolve ends the call in a slot.
func (s *link) resolve(i int) {
	x := &s.slots[i]
	x.answered = true
	s.Signal(&x.Waiter)
	s.settle(i)
}

// drop frees the resources of a completed call. The caller holds the lock.
func (s *link) drop(x *slot) {
	if x.in != nil {
		x.in.Release(x.at)
		x.in, x.answer, x.extra = nil, nil, nil
	}
	if x.far != nil && !x.reading {
		x.far.Release()
		x.far = nil
	}
}

// leaveSlot is the end of a call for its caller. If it was not answered, the server is told that
// no call waits, and the slot is free when the server has answered.
func (s *link) leaveSlot(i int) {
	s.e.Lock()
	defer s.e.Unlock()
	x := &s.slots[i]
	x.abandoned = true
	switch {
	case x.answered, x.oneWay && x.n > 0:
	case x.n == 0: // never sent: the next call has its number
		x.sequence--
		x.answered = true
	case x.conn != nil && x.conn.Err == nil:
		tell(x.conn, session.Header{Kind: session.Cancel, Slot: uint16(i), Sequence: x.sequence}, nil)
	}
	s.settle(i)
	s.e.Flush()
}

// settle frees a slot that is no longer in use.
func (s *link) settle(i int) {
	x := &s.slots[i]
	if !x.busy || !x.answered || !x.abandoned {
		return
	}
	s.drop(x)
	if x.posts > 0 || x.reading {
		return
	}
	if x.body != nil {
		x.body.Release()
		x.body = nil
	}
	s.bytes -= x.bytes
	x.busy = false
	s.busy--
	s.free = append(s.free, uint16(i))
	s.feed()
	if s.leaving && s.busy == 0 && s.err == nil {
		go s.shut(errUnsent)
	}
	s.release()
}

// leave takes the server's wish that the client uses another session.
func (s *link) leave(address string) {
	if s.leaving {
		return
	}
	s.leaving, s.moved = true, address
	s.usable.Store(false)
	s.feed()
	if s.busy == 0 {
		go s.shut(errUnsent)
	}
}
