package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A state is a stream's.
type state uint8

const (
	idle         state = iota
	awaitReply         // initiator: the request is sent
	awaitRequest       // responder
	requested          // responder: Accept or Reject is due
	operating          // FPDUs
	ending             // what is left is sent, then the write side is shut
	dead
)

// A Stream is one TCP connection: its set-up, and the bytes in both directions.
// Whoever owns the socket feeds and drains it through Room and Filled, Next and
// Sent, and asks Shut after each call what to do with the socket.
type Stream struct {
	handler func(*Event)
	pool    *Pool
	state   state
	params  Params
	request startup // the peer's frame, and what a responder keeps of it
	q       *QP     // from Connect or Accept on

	out   []byte // frames of the set-up, and a queue pair's last words
	taken int    // bytes of out that were sent

	segment  int // bytes that a segment of TCP holds; 0 is unknown
	deadline time.Duration
	shut     Shut
	nudged   int           // how often, of nudges; see there
	yields   bool          // an initiator that goes on with revision 1 where its peer knows no other
	waits    bool          // the end is due, and not told to the peer yet
	told     bool          // Closed, Rejected or Refused was told
	why      reason.Detail // that the link gave for the end

	unanswered bool // see Event

	offered int // bytes of direct room in list
	list    [][]byte
	scratch []byte
}

// NewStream makes the machine of a TCP connection that was made. pool lends the
// memory in which FPDUs are built; handler hears the events.
func NewStream(pool *Pool, handler func(*Event)) *Stream {
	return &Stream{pool: pool, handler: handler, deadline: machine.Never}
}

// SetSegment tells how many bytes a segment of the TCP connection holds, before the
// set-up ends.
func (s *Stream) SetSegment(n int) { s.segment = n }

// QP is the queue pair that the stream carries, nil before Connect or Accept
// and after the end.
func (s *Stream) QP() *QP { return s.q }

// Room gives where the next bytes of the stream are to be read to, in order:
// registered memory where the payload of a message is due, then scratch, or a
// part of it; nothing while the stream is Stalled. The slices are valid until Filled, which is called before any
// other door. scratch is the caller's, at least MinScratch long; it may serve
// all streams, as nothing stays in it.
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

// Filled tells that n bytes were read into what Room gave.
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
			b = nil // behind the end of the stream
			if s.waits {
				s.waits, s.deadline = false, now+closeTimeout
			}
		}
	}
	if s.q != nil {
		s.q.settle(now)
	}
}

// Closed tells that nothing more will come from the peer: its end of the stream
// was reached (lost false), or the TCP connection broke.
func (s *Stream) Closed(now time.Duration, lost bool) {
	switch s.state {
	case dead:
		s.out, s.taken = nil, 0
	case idle, awaitReply, awaitRequest, requested:
		s.unanswered = s.state == awaitReply && s.yields && s.why.Reason == reason.None && len(s.out)+len(s.request.frame) == 0
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

// Failed tells that the TCP connection broke for a reason that its link knows.
func (s *Stream) Failed(now time.Duration, d reason.Detail) {
	s.why = d
	s.Closed(now, true)
}

// end is the detail of an end of the stream.
func (s *Stream) end(lost bool) reason.Detail {
	if s.why.Reason != reason.None {
		return s.why
	}
	if d := s.foreign(); d.Reason != reason.None {
		return d
	}
	d := reason.Detail{Reason: reason.StreamClosed}
	if s.q != nil {
		d.Expected, d.Found = uint64(s.q.req.outstanding()), uint64(s.q.rx.begun())
		lost = lost || s.state == operating && s.q.unfinished()
	}
	if lost {
		d.Reason = reason.StreamLost
	}
	return d
}

// Next fills out with bytes to send and tells whether there are any. They stay
// as they are until Sent, which is called before any other door.
func (s *Stream) Next(now time.Duration, out *Out) bool {
	out.reset()
	if s.taken < len(s.out) {
		out.add(s.out[s.taken:])
		return true
	}
	if s.state == operating && s.q.next(now, out) {
		return true
	}
	if s.taken < len(s.out) { // what ended the connection just now
		out.reset()
		out.add(s.out[s.taken:])
		return true
	}
	if s.q != nil && s.state != operating {
		s.q.settle(now)
	}
	return false
}

// Sent tells how many of the bytes of Next the socket took.
func (s *Stream) Sent(now time.Duration, n int) {
	if s.taken < len(s.out) {
		k := min(n, len(s.out)-s.taken)
		s.taken += k
		if s.taken == len(s.out) {
			s.out, s.taken = nil, 0
		}
		return
	}
	if s.state == operating {
		s.q.sent(now, n)
		s.q.settle(now)
	}
}

// Deadline is when Expire wants to be called, machine.Never for not at all.
func (s *Stream) Deadline() time.Duration { return min(s.deadline, s.lookAt(), s.watchAt()) }

// Expire acts on a deadline that has passed.
func (s *Stream) Expire(now time.Duration) {
	if s.lookAt() <= now {
		q := s.q
		q.look(now)
		q.settle(now)
	}
	if s.watchAt() <= now {
		q := s.q
		q.watch(now)
		q.settle(now)
	}
	if s.deadline > now {
		return
	}
	s.deadline = machine.Never
	switch s.state {
	case awaitReply, awaitRequest:
		s.refuse(now, reason.Detail{Reason: reason.MPATimeout, Expected: uint64(s.request.wait / time.Millisecond), Found: uint64(len(s.request.frame))})
	case operating:
		if s.initiator() {
			s.nudge(now)
		} else {
			s.q.held = false // see patience
		}
	case ending:
		if s.waits {
			s.waits, s.deadline = false, now+closeTimeout
			return
		}
		s.finish(reason.Detail{Reason: reason.StreamClosed})
	}
}

// Abort ends the stream at once, in any state, and the user hears no more of it: a
// connection that is not wanted any longer. A queue pair that was in full
// operation goes to the error state, one that was not is free again.
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

// Shut tells what to do with the TCP connection now. Once it says ShutClose or
// ShutAbort the stream is done with.
func (s *Stream) Shut() Shut {
	if s.state == ending && s.taken == len(s.out) && !s.waits {
		return max(s.shut, ShutWrite)
	}
	if s.state == dead && s.taken < len(s.out) && s.shut == ShutClose {
		return ShutNothing // a rejection is sent before the close
	}
	return s.shut
}

// Disconnect ends an established connection in order (RFC 5040 6.2): the FPDU that
// is under way is sent to its end, then the stream is closed. The queue pair
// goes to the error state and flushes what has not completed.
func (s *Stream) Disconnect(now time.Duration) error {
	if s.state != operating {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(operating), Found: uint64(s.state)}}
	}
	d := reason.Detail{Reason: reason.StreamClosed, Expected: uint64(s.q.req.outstanding()), Found: uint64(s.q.rx.begun())}
	// Until a peer that promised nothing has read the reply, see patience, an end
	// looks like a refusal to Linux's siw.
	unread, due := s.q.silent, s.deadline
	s.q.disconnect(now, d)
	if unread && s.state == ending && due != machine.Never {
		s.waits, s.deadline = true, due
	}
	s.q.settle(now)
	return nil
}

// wind begins the orderly end: what is in out is sent, the write side is shut, and
// the peer has a while to do the same.
func (s *Stream) wind(now time.Duration, d reason.Detail) {
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

// refuse ends a stream whose set-up failed, without a word to the peer.
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
		e.Agreement = s.request.asks
	}
	s.handler(&e)
}

// ready tells whether a queue pair can take a connection.
func ready(q *QP) error {
	if st := q.p.Attr.State; st != qp.Init && st != qp.RTR {
		return &Error{reason.Detail{Reason: reason.LocalQPState, Expected: uint64(qp.Init), Found: uint64(st)}}
	}
	if q.s != nil {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(q.s.state)}}
	}
	return CheckType(q.p.Type)
}
