package rpc

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
)

// The states of a task.
const (
	taskIdle     = iota
	taskWaiting  // its body is being read, or it waits for its turn
	taskBroken   // the connection broke while its body was read: the client sends it again
	taskRunning  // in its handler
	taskAnswered // its answer is kept
)

// A task is the last request of a slot at the server. The engine's lock guards it, except that its
// handler owns the call while it runs.
type task struct {
	owner    *served
	slot     uint16
	sequence uint32
	state    int
	oneWay   bool
	canceled bool
	loaded   bool // the body has arrived
	proc     *Procedure
	deadline time.Time
	conn     *carrier.Conn // that brought the last copy of the request, or has the answer
	address  uint64
	key      uint32

	receive *carrier.Conn // whose receive has the body
	at      int
	in      *Buffer // far body
	body    []byte
	extra   []byte // headers of the request, then those of the answer
	call    *Call
	result  error

	n     int // bytes of the answer's frame
	out   *Buffer
	posts int  // copies of the answer in flight
	again bool // send the answer once more
	done  bool // the client has read the far answer
}

// take takes a new request.
func (t *task) take(c *carrier.Conn, h *session.Header, body []byte, at int) (keep bool, err error) {
	s := t.owner
	*t = task{owner: s, slot: t.slot, sequence: h.Sequence, state: taskWaiting, conn: c, posts: t.posts,
		oneWay: h.Flags&session.OneWay != 0, canceled: h.Flags&session.Canceled != 0, address: h.Address, key: h.Key}
	if h.Timeout > 0 {
		t.deadline = time.Now().Add(time.Duration(min(h.Timeout, 1<<62)))
	}
	switch {
	case s.leaving:
		t.result = &Error{Draining, "the call was not begun"}
	case int(h.Number) >= len(s.port.methods):
		t.result = &Error{UnknownMethod, fmt.Sprintf("number %d", h.Number)}
	case h.Length > uint64(s.port.srv.cfg.MaxBody):
		t.result = &Error{TooLarge, fmt.Sprintf("a request of %d bytes, the server accepts %d", h.Length, s.port.srv.cfg.MaxBody)}
	default:
		t.proc = s.port.methods[h.Number]
	}
	if t.result != nil {
		t.load()
		return false, nil
	}
	if h.Flags&session.Far == 0 {
		t.receive, t.at, t.body, t.extra = c, at, body, h.Extra(body)
		t.load()
		return true, nil
	}
	if s.bytes+h.Length > uint64(s.port.srv.cfg.Bytes) {
		return false, fmt.Errorf("%w: requests of %d bytes in flight, allowed are %d", ErrProtocol, s.bytes+h.Length, s.port.srv.cfg.Bytes)
	}
	if t.in, err = s.pool.get(int(h.Length)); err != nil {
		t.result = &Error{ResourceExhausted, err.Error()}
		t.load()
		return false, nil
	}
	s.bytes += h.Length
	t.extra = bytes.Clone(h.Extra(body))
	t.fetch(c)
	return false, nil
}

// fetch reads the body from the client's memory.
func (t *task) fetch(c *carrier.Conn) {
	t.state = taskWaiting
	c.Move(carrier.Move{By: t.owner, Slot: int(t.slot), Data: t.in.Bytes(), Address: t.address, Key: t.key})
}

// load makes a task ready whose body has arrived. Its turn comes when the last answer of its slot,
// whose memory it uses, has left.
func (t *task) load() {
	t.loaded = true
	if t.posts == 0 {
		t.owner.port.enqueue(t)
	}
}

// begin makes the call of a task. It reports whether a handler is to run; otherwise it has answered.
// The caller holds the lock.
func (t *task) begin() bool {
	t.state = taskRunning
	switch {
	case t.result != nil:
	case t.canceled:
		t.result = Canceled
	case !t.deadline.IsZero() && !time.Now().Before(t.deadline):
		t.result = DeadlineExceeded
	case t.owner.ended:
		t.result = ErrClosed
	default:
		t.call = t.newCall()
		return true
	}
	t.finish()
	return false
}

// cancel ends the context of the handler, or keeps it from being run.
func (t *task) cancel() {
	t.canceled = true
	if t.call != nil {
		t.call.cancel(context.Canceled)
	}
}

// run runs the handler.
func (t *task) run() {
	start := time.Now()
	t.result = t.proc.call(t.call)
	extra, err := t.call.seal()
	if t.extra = extra; t.result == nil {
		t.result = err
	}
	t.proc.took(time.Since(start))
}

// finish answers the request. The caller holds the lock.
func (t *task) finish() {
	s := t.owner
	h := session.Header{Kind: session.Answer, Slot: t.slot, Sequence: t.sequence}
	frame := s.out.Bytes(int(t.slot))
	if t.call == nil {
		t.extra = nil // of the request
	}
	if c := t.call; c != nil {
		c.cancel(errReturned)
		if t.result == nil && c.answer != nil && s.owed+uint64(c.answer.n) > uint64(s.port.srv.cfg.Bytes) {
			t.result = &Error{ResourceExhausted, fmt.Sprintf("the client has not read %d bytes of other answers", s.owed)}
		}
		if t.result != nil {
			c.reset()
		}
		t.n = session.HeaderLen + c.inline
		if b := c.answer; b != nil {
			t.out, t.n = b, session.HeaderLen
			s.owed += uint64(b.n)
			h.Flags, h.Length = session.Far, uint64(b.n)
		}
		t.call = nil
	}
	if t.result != nil {
		code, text := result(t.result)
		room := frame[session.HeaderLen : s.frame-len(t.extra)]
		h.Number, t.n = uint32(code), session.HeaderLen+copy(room, text)
	}
	if t.out == nil {
		h.Length = uint64(t.n - session.HeaderLen)
	}
	h.Headers = uint32(copy(frame[t.n:s.frame], t.extra))
	h.Put(frame)
	t.n += int(h.Headers)
	t.state, t.body, t.extra = taskAnswered, nil, nil
	s.table.Finish(t.slot)
	s.busy--
	t.letGo()
	if s.ended {
		if s.joining == 0 {
			s.free()
		}
		return
	}
	t.send()
}

// letGo frees the memory of the request.
func (t *task) letGo() {
	if t.receive != nil {
		t.receive.Release(t.at)
		t.receive = nil
	}
	if t.in != nil {
		t.owner.bytes -= uint64(t.in.n)
		t.in.Release()
		t.in = nil
	}
}

// repeat sends the answer again, when no other copy of it is in flight.
func (t *task) repeat() {
	if t.posts > 0 {
		t.again = true
	} else {
		t.send()
	}
}

// send sends the answer, if there is a connection. If not, the client asks again.
func (t *task) send() {
	c := t.conn
	if c == nil || c.Err != nil {
		if c = t.owner.pick(); c == nil {
			return
		}
		t.conn = c
	}
	if t.oneWay {
		p := session.Place{Slot: t.slot, Sequence: t.sequence}
		tell(c, session.Header{Kind: session.Taken}, p.Append(nil))
		return
	}
	if t.done { // the client has it
		return
	}
	t.posts++
	send(c, int(t.slot), t.n, t.owner.out.Bytes(int(t.slot)), t.out)
}

// pick returns a connection, nil if there is none.
func (s *served) pick() *carrier.Conn {
	for _, c := range s.conns {
		if c.Err == nil {
			return c
		}
	}
	return nil
}

// drop frees what the task still holds.
func (t *task) drop() {
	t.letGo()
	if t.out != nil {
		t.owner.owed -= uint64(t.out.n)
		t.out.Release()
		t.out = nil
	}
}
