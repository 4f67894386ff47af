package iwarp

import (
	"time"

	"softrdma/internal/iwarp/mpa"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A state is the state of a stream.
type state uint8

const (
	idle         state = iota
	awaitReply         // initiator: the request is sent
	awaitRequest       // responder
	requested          // responder: waits for Accept or Reject
	operating          // exchanges FPDUs
	ending             // the rest is sent, then the write side is shut
	dead
)

// A Stream is one TCP connection: its set-up, and the bytes in both directions. The owner of
// the socket feeds it through Room and Filled, drains it through Next and Sent, and after each
// call asks Shut what to do with the socket.
type Stream struct {
	handler func(*Event)
	pool    *Pool
	state   state
	setup   mpa.Setup
	q       *QP // from Connect or Accept on

	out   []byte // set-up frames, and the last bytes of a queue pair
	taken int    // bytes of out sent so far

	written      uint64 // bytes accepted by the link
	segment      int    // bytes in a TCP segment; 0 if unknown
	deadline     time.Duration
	setupTimeout time.Duration // time limit of the wait for the peer's frame
	shut         Shut
	wakeups      int           // number of empty WRITEs sent; see wakeups
	waits        bool          // the write side will be shut later
	told         bool          // Closed, Rejected or Refused was sent
	why          reason.Detail // the link's reason for the end

	unanswered bool // see Event

	offered int // bytes of registered memory in list
	list    [][]byte
	scratch []byte
}

// NewStream makes the machine of an established TCP connection. pool lends the memory in
// which FPDUs are built; handler gets the events.
func NewStream(pool *Pool, handler func(*Event)) *Stream {
	return &Stream{pool: pool, handler: handler, deadline: machine.Never}
}

// SetSegment sets how many bytes fit in a TCP segment of the connection. Call it before the
// set-up ends.
func (s *Stream) SetSegment(n int) { s.segment = n }

// QP returns the queue pair of the stream, or nil before Connect or Accept and after the end.
func (s *Stream) QP() *QP { return s.q }

// Room returns where to read the next bytes of the stream to, in order: registered memory if
// the payload of a message is expected, then scratch or a part of it. It returns nothing while
// the stream is Stalled. The slices are valid until Filled, which must be the next call. The
// caller owns scratch, which must have at least MinScratch bytes. Nothing stays in it, so all
// streams may share it.
func (s *Stream) Room(now time.Duration, scratch []byte) [][]byte {
	s.list, s.offered = s.list[:0], 0
	if s.Stalled() {
		return nil
	}
	if s.receives() {
		peek := s.q.direct(now)
		scratch = scratch[:min(len(scratch), peek)]
	}
	s.scratch = scratch
	s.list = append(s.list, scratch)
	return s.list
}

func (s *Stream) receives() bool {
	return s.state == operating && s.q != nil && !s.q.rx.dead
}

// Filled processes n bytes that were read into the result of Room.
func (s *Stream) Filled(now time.Duration, n int) {
	if s.state == operating && n > 0 {
		s.q.alive.heard = now
	}
	if k := min(n, s.offered); k > 0 {
		n -= k
		s.q.filled(now, k)
	}
	b := s.scratch[:min(n, len(s.scratch))]
	s.scratch = nil
	for len(b) > 0 {
		switch s.state {
		case awaitReply, awaitRequest:
			b = s.collect(now, b)
		case requested:
			// RFC 5044 7.1.2: the initiator waits for the reply.
			s.refuse(now, reason.Detail{Reason: reason.MPAEarly, Found: uint64(len(b))})
		case operating:
			s.q.feed(now, b)
			b = nil
		default:
			b = nil // after the end of the stream
			if s.waits {
				s.waits, s.deadline = false, now+closeTimeout
			}
		}
	}
	if s.q != nil {
		s.q.settle(now)
	}
}

// Closed reports that nothing more will come from the peer: its end of the stream was reached
// (lost is false), or the TCP connection broke.
func (s *Stream) Closed(now time.Duration, lost bool) {
	switch s.state {
	case dead:
		s.out, s.taken = nil, 0
	case idle, awaitReply, awaitRequest, requested:
		s.unanswered = s.state == awaitReply && s.setup.Fallback() && s.why.Reason == reason.None && len(s.out)+s.setup.Buffered() == 0
		s.refuse(now, s.end(lost))
	case operating:
		d := s.end(lost)
		s.q.lose(now, d, lost || s.q.unfinished())
		s.finish(d)
	default:
		s.finish(s.end(lost))
	}
	if s.q != nil {
		s.q.settle(now)
	}
}

// Failed reports that the TCP connection broke for a reason that its link knows.
func (s *Stream) Failed(now time.Duration, d reason.Detail) {
	s.why = d
	s.Closed(now, true)
}

// TimedOut reports that TCP gave up on a peer that did not answer.
func (s *Stream) TimedOut(now time.Duration) {
	d := reason.Detail{Reason: reason.StreamTimeout}
	if s.q != nil {
		d = s.q.cut(d.Reason)
	}
	s.Failed(now, d)
}

// end returns the detail of the end of the stream.
func (s *Stream) end(lost bool) reason.Detail {
	if s.why.Reason != reason.None {
		return s.why
	}
	if d := s.setup.Foreign(); d.Reason != reason.None {
		return d
	}
	d := reason.Detail{Reason: reason.StreamClosed}
	if s.q != nil {
		d = s.q.cut(d.Reason)
		lost = lost || s.state == operating && s.q.unfinished()
	}
	if lost {
		d.Reason = reason.StreamLost
	}
	return d
}

// Next fills out with bytes to send and reports whether there are any. They must not change
// until Sent, which must be the next call.
func (s *Stream) Next(now time.Duration, out *Out) bool {
	out.reset()
	if s.taken < len(s.out) {
		out.add(s.out[s.taken:])
		return true
	}
	if s.state == operating && s.q.next(now, out) {
		return true
	}
	if s.taken < len(s.out) { // the message that ended the connection just now
		out.reset()
		out.add(s.out[s.taken:])
		return true
	}
	if s.q != nil && s.state != operating {
		s.q.settle(now)
	}
	return false
}

// Sent reports how many of the bytes of Next the link accepted, and how many of all accepted
// bytes it still holds. With n = 0 it may be called at any time when held has changed.
func (s *Stream) Sent(now time.Duration, n, held int) {
	s.written += uint64(n)
	if s.taken < len(s.out) {
		k := min(n, len(s.out)-s.taken)
		s.taken += k
		if s.taken == len(s.out) {
			s.out, s.taken = nil, 0
		}
		return
	}
	if s.state == operating {
		s.q.sent(now, n, held)
		s.q.settle(now)
	}
}

// Deadline returns when to call Expire, or machine.Never.
func (s *Stream) Deadline() time.Duration { return min(s.deadline, s.pollAt(), s.checkAt()) }

// Expire acts on a deadline that has passed.
func (s *Stream) Expire(now time.Duration) {
	if s.pollAt() <= now {
		q := s.q
		q.pollReceive(now)
		q.settle(now)
	}
	if s.checkAt() <= now {
		q := s.q
		q.checkPeer(now)
		q.settle(now)
	}
	if s.deadline > now {
		return
	}
	s.deadline = machine.Never
	switch s.state {
	case awaitReply, awaitRequest:
		s.refuse(now, reason.Detail{Reason: reason.MPATimeout, Expected: uint64(s.setupTimeout / time.Millisecond), Found: uint64(s.setup.Buffered())})
	case operating:
		if s.setup.Initiator() {
			s.wakeUp(now)
		} else {
			s.q.held = false // see firstWait
		}
	case ending:
		if s.waits {
			s.waits, s.deadline = false, now+closeTimeout
			return
		}
		s.finish(reason.Detail{Reason: reason.StreamClosed})
	}
}

// Abort ends the stream at once, in any state, and sends no more events. A queue pair in full
// operation goes to the error state; any other is free again.
func (s *Stream) Abort(now time.Duration) {
	s.told = true
	d := reason.Detail{Reason: reason.StreamClosed}
	if q := s.q; q != nil && q.s == s {
		if s.state == operating {
			q.enterErr(d, queue.WRFlushErr)
			q.settle(now)
		}
		q.s = nil
	}
	s.abort(d)
}

// Shut returns what to do with the TCP connection now. After ShutClose or ShutAbort the
// stream is no longer used.
func (s *Stream) Shut() Shut {
	if s.state == ending && s.taken == len(s.out) && !s.waits {
		return max(s.shut, ShutWrite)
	}
	if s.state == dead && s.taken < len(s.out) && s.shut == ShutClose {
		return ShutNothing // a rejection is sent before the close
	}
	return s.shut
}

// Disconnect ends an established connection in order (RFC 5040 6.2): the current FPDU is
// finished, then the stream is closed. The queue pair goes to the error state and flushes
// incomplete requests.
func (s *Stream) Disconnect(now time.Duration) error {
	if s.state != operating {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(operating), Found: uint64(s.state)}}
	}
	d := s.q.cut(reason.StreamClosed)
	// A peer that made no promise (see firstWait) may not have read the reply yet. Linux's siw
	// would take an end for a refusal.
	unread, due := s.q.silent, s.deadline
	s.q.disconnect(now, d)
	if unread && s.state == ending && due != machine.Never {
		s.waits, s.deadline = true, due
	}
	s.q.settle(now)
	return nil
}

// shutDown begins the orderly end: out is sent, the write side is shut, and the peer has
// closeTimeout to do the same.
func (s *Stream) shutDown(now time.Duration, d reason.Detail) {
	if s.state == dead {
		return
	}
	s.state = ending
	s.deadline = now + closeTimeout
	s.tell(Closed, d, nil)
}

// finish ends the stream.
func (s *Stream) finish(d reason.Detail) {
	s.out, s.taken = nil, 0
	if s.state != dead {
		s.state, s.deadline = dead, machine.Never
		s.shut = max(s.shut, ShutClose)
		s.tell(Closed, d, nil)
	}
}

// abort ends the stream at once.
func (s *Stream) abort(d reason.Detail) {
	s.shut = ShutAbort
	s.finish(d)
}

// refuse ends a stream whose set-up failed, without a message to the peer.
func (s *Stream) refuse(now time.Duration, d reason.Detail) {
	if s.state == dead {
		return
	}
	if q := s.q; q != nil {
		q.refuse(d)
		if q.s == s {
			q.s = nil
		}
	}
	s.state, s.deadline, s.shut = dead, machine.Never, ShutClose
	s.out, s.taken = nil, 0
	s.tell(Refused, d, nil)
}

func (s *Stream) tell(k EventKind, d reason.Detail, private []byte) {
	if k == Closed || k == Refused || k == Rejected {
		if s.told {
			return
		}
		s.told = true
	}
	e := Event{Kind: k, Stream: s, Detail: d, Private: private, Unanswered: s.unanswered}
	if s.q != nil {
		e.Agreement, e.Term = s.q.a, s.q.term
	}
	if k == Requested {
		e.Agreement = s.setup.Asks
	}
	s.handler(&e)
}

// connectable returns an error if a queue pair cannot get a connection.
func connectable(q *QP) error {
	if st := q.p.Attr.State; st != qp.Init && st != qp.RTR {
		return &Error{reason.Detail{Reason: reason.LocalQPState, Expected: uint64(qp.Init), Found: uint64(st)}}
	}
	if q.s != nil {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(q.s.state)}}
	}
	return CheckType(q.p.Type)
}
