package msg

import (
	"fmt"

	"softrdma/internal/message"
)

// MaxHeader is the length in bytes up to which an active message may have a header.
const MaxHeader = 1024

const _ = uint(MaxHeader-message.MaxHeader) | uint(message.MaxHeader-MaxHeader) // they are equal

// A Handler takes an active message. The goroutine that makes progress calls it: one of the
// worker's own, or one that is in a method of the worker, an endpoint or a request. A worker calls
// one handler at a time, for the messages of one endpoint in the order in which they were sent. So a
// handler must not block. It may start operations.
//
// The message and its bytes are the worker's again when the handler returns, unless the handler
// calls Active.Keep.
type Handler func(m *Active)

// An Active is an active message that arrived.
type Active struct {
	ID     uint16
	Header []byte
	Data   []byte    // nil if the data is in the sender's memory; then Receive reads it
	Length int       // of the data in bytes
	From   *Endpoint // sends to the worker that sent the message

	c     *connection
	slot  int    // of the receive, -1 if buf has the bytes
	buf   []byte // header and data that came through shared memory
	m     message.Active
	kept  bool
	holds int // the handler and Keep
}

// Handle sets the function that takes active messages with an ID. Nil removes it. A message that
// arrives without a handler is dropped and counted: see Unhandled.
func (w *Worker) Handle(id uint16, h Handler) {
	w.e.Lock()
	defer w.e.Unlock()
	if n := int(id) + 1; n > len(w.handlers) {
		w.handlers = append(w.handlers, make([]Handler, n-len(w.handlers))...)
	}
	w.handlers[id] = h
}

// Unhandled returns how many active messages had no handler. Config.Unhandled names them.
func (w *Worker) Unhandled() uint64 {
	w.e.Lock()
	defer w.e.Unlock()
	return w.unknown
}

// SendActive sends a message with a header of at most MaxHeader bytes and data of at most
// verbs.MaxMessage bytes to the peer's handler for an ID. The peer's Config.Eager decides: header
// and data of together at most that length are copied and sent at once, and the request ends.
// Longer data stays where it is until the handler has read it or dropped it, and the request ends
// then; only the header is sent at once. The request of longer data ends with ErrHandler if there is no
// handler, and with a Rejection if that rejects it. If the peer fails, the error matches ErrPeer.
//
// The program must not change header and data until the request has ended.
func (e *Endpoint) SendActive(id uint16, header []byte, data Buffers, o *SendOptions) *Request {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.send.Data, r.send.Length = r.pieces(data)
	r.send.Announce = o != nil && o.Announce
	r.send.Class, r.send.Tag, r.send.Header = message.Actives, uint64(id), header
	if n := len(header); n > MaxHeader {
		r.end(Info{uint64(id), r.send.Length}, fmt.Errorf("%w: header of %d bytes, expected at most %d", ErrTooLong, n, MaxHeader))
		return r
	}
	e.post(r)
	return r
}

// Keep makes the message and its bytes stay when the handler returns, until Release. Kept messages
// count against Config.Active: a peer whose messages are all kept cannot send more. So a program must
// not wait for its own sends to the peer before it releases the peer's messages. If both did, both
// would wait forever.
func (m *Active) Keep() {
	w := m.c.w
	w.e.Lock()
	defer w.e.Unlock()
	if !m.kept {
		m.kept = true
		m.holds++
	}
}

// Release gives a message that was kept back to the worker. The program must not use the message
// and its bytes any more. Data in the sender's memory that was not received is dropped; a Receive
// that has begun continues. Without Keep, Release does nothing.
func (m *Active) Release() {
	w := m.c.w
	w.e.Lock()
	defer w.unlock()
	if m.kept {
		m.kept = false
		m.release()
		w.e.Flush()
	}
}

// A Rejection is the error of a send of announced data that the peer's handler rejected: its reason.
type Rejection uint32

// Error has the reason.
func (r Rejection) Error() string { return fmt.Sprintf("handler rejected the data: reason %d", r) }

// Reject rejects announced data that is not received, for a reason of the program's that is not 0. When the handler
// has returned, or after Release of a message that was kept, the sender's request ends with that Rejection.
func (m *Active) Reject(reason uint32) { m.m.Reject(reason) }

// release ends a use of the message. The caller holds the lock.
func (m *Active) release() {
	if m.holds--; m.holds == 0 {
		m.c.w.machine.ReleaseActive(&m.m)
	}
}

// Receive receives the data, which it reads from the sender's memory if it is there, and copies
// otherwise. It is called before the handler returns, or before Release of a message that was
// kept. A second receive ends with ErrReceived, and one whose buffer is shorter than the data with
// ErrTruncated.
func (m *Active) Receive(buf Buffers) *Request {
	w := m.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.receive.Buffer, r.receive.Length = r.pieces(buf)
	r.receive.Context = r
	if m.m.Taken() {
		r.end(Info{uint64(m.ID), m.Length}, ErrReceived)
		return r
	}
	w.machine.ReceiveActive(&r.receive, &m.m)
	w.e.Flush()
	return r
}

// Active queues the call of a handler.
func (e env) Active(a *message.Active) bool {
	w := e.w
	c := a.From.Context.(*connection)
	var h Handler
	if int(a.ID) < len(w.handlers) {
		h = w.handlers[a.ID]
	}
	if h == nil {
		w.unknown++
		if f := w.config.Unhandled; f != nil {
			w.calls = append(w.calls, call{unhandled: f, from: &c.endpoint, id: a.ID})
		}
		return false
	}
	from := &c.endpoint
	if c.group != nil {
		c = c.group.arriving
	}
	slot, m := c.arriving, (*Active)(nil)
	if c.rings.arriving {
		slot, m = -1, c.rings.keep(a)
	} else {
		m = &c.actives[slot]
		c.taken = true
	}
	m.ID, m.Header, m.Data, m.Length, m.From = a.ID, a.Header, a.Data, a.Length, from
	m.c, m.slot, m.kept, m.holds = c, slot, false, 1
	m.m = *a
	m.m.Context = m
	w.calls = append(w.calls, call{handle: h, active: m})
	return true
}

// Over posts the receive of a message again.
func (env) Over(a *message.Active) {
	m := a.Context.(*Active)
	c := m.c
	if m.slot < 0 {
		c.rings.spare = append(c.rings.spare, m)
		return
	}
	c.Release(m.slot)
}
