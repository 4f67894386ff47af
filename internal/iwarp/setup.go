package iwarp

import (
	"time"

	"softrdma/internal/iwarp/mpa"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// The terms of the set-up come from package mpa.
type (
	Params     = mpa.Params
	Agreement  = mpa.Agreement
	Extensions = mpa.Extensions
)

// See package mpa.
const (
	ExtensionsAsk = mpa.ExtensionsAsk
	ExtensionsOff = mpa.ExtensionsOff
	ExtensionsOn  = mpa.ExtensionsOn
	MaxDepth      = mpa.MaxDepth
)

const (
	replyTimeout   = 10 * time.Second // of Linux's siw
	requestTimeout = 5 * time.Second
	closeTimeout   = 5 * time.Second

	// firstWait is how long a responder without a peer-to-peer connection leaves the first
	// FPDU to its initiator. The RFC makes it wait forever; but initiators on Linux's siw do
	// not ask for a peer-to-peer connection, and programs whose server speaks first expect
	// data. Some wait is necessary, because siw drops a connection if an FPDU arrives before
	// it has read the reply.
	firstWait = 250 * time.Millisecond
)

// Connect acts as initiator: it sends the request, and operates on q when the reply has
// arrived (RFC 5044 7.1.2).
func (s *Stream) Connect(now time.Duration, q *QP, p *Params) error {
	if s.state != idle {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(s.state)}}
	}
	if err := connectable(q); err != nil {
		return err
	}
	frame, d := s.setup.Request(p)
	if d.Reason != reason.None {
		return &Error{d}
	}
	s.out, s.taken = frame, 0
	s.q, q.s = q, s
	s.await(now, awaitReply, p.Timeout, replyTimeout)
	return nil
}

// Listen acts as responder: it waits for the request, at most for timeout; 0 means 5 s.
func (s *Stream) Listen(now, timeout time.Duration) error {
	if s.state != idle {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(s.state)}}
	}
	s.await(now, awaitRequest, timeout, requestTimeout)
	return nil
}

// await starts the wait for the peer's frame.
func (s *Stream) await(now time.Duration, st state, timeout, usual time.Duration) {
	if timeout == 0 {
		timeout = usual
	}
	s.state, s.setupTimeout, s.deadline = st, timeout, now+timeout
}

// collect processes bytes of the peer's frame, acts on the complete frame, and returns the
// bytes after it.
func (s *Stream) collect(now time.Duration, b []byte) []byte {
	reply := s.state == awaitReply
	rest, private, complete, d := s.setup.Collect(b, reply)
	if d.Reason != reason.None {
		s.refuseFrame(now, d)
		return nil
	}
	if !complete {
		return rest
	}
	s.deadline = machine.Never
	if reply {
		s.replied(now, private)
	} else {
		s.setup.Requested()
		s.state = requested
		s.tell(Requested, reason.Detail{}, private)
	}
	return rest
}

// RequestFrame returns the request that waits for an answer, as another stream's machine may read
// it: by Listen, Room and Filled.
func (s *Stream) RequestFrame() []byte { return s.setup.RequestFrame() }

// Accept answers a request: it sends the reply and operates on q, whose state becomes
// RTS.
func (s *Stream) Accept(now time.Duration, q *QP, p *Params) error {
	if s.state != requested {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(requested), Found: uint64(s.state)}}
	}
	if err := connectable(q); err != nil {
		return err
	}
	frame, a, d := s.setup.Accept(p)
	if d.Reason != reason.None {
		return &Error{d}
	}
	s.out, s.taken = frame, 0
	q.operate(now, s, a)
	// RFC 5044 7.1.2: the responder sends no FPDU before it has received one.
	q.held, q.silent = true, true
	s.state = operating
	// A peer that offers extensions is softrdma, which always sends a first FPDU.
	q.untold = a.PeerToPeer || s.setup.Asks.Extensions
	if q.untold {
		return nil
	}
	switch {
	case p.FirstWait == 0:
		s.deadline = now + firstWait
	case p.FirstWait > 0:
		s.deadline = now + p.FirstWait
	}
	s.tell(Established, reason.Detail{}, nil)
	return nil
}

// Reject answers a request with a refusal, and closes.
func (s *Stream) Reject(now time.Duration, private []byte) error {
	if s.state != requested {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(requested), Found: uint64(s.state)}}
	}
	frame, d := s.setup.Reject(private)
	if d.Reason != reason.None {
		return &Error{d}
	}
	s.out, s.taken = frame, 0
	s.told = true // the user knows
	s.state, s.deadline, s.shut = dead, machine.Never, ShutClose
	return nil
}

// replied handles the reply.
func (s *Stream) replied(now time.Duration, private []byte) {
	r := s.setup.Reply()
	q := s.q
	switch r.Outcome {
	case mpa.Rejected:
		q.refuse(r.Detail)
		q.s = nil
		s.state, s.shut = dead, ShutClose
		s.tell(Rejected, r.Detail, private)
		return
	case mpa.BadFrame:
		s.refuseFrame(now, r.Detail)
		return
	case mpa.Mismatch:
		// RFC 6581 8: the responder is already operating, and must be told.
		s.refuse(now, r.Detail)
		s.terminate(r.Term, nil, r.Agreement.CRC)
		return
	}
	if r.Detail.Reason != reason.None {
		q.refuse(r.Detail)
	}
	s.state = operating
	q.operate(now, s, r.Agreement)
	if !r.Agreement.Extensions { // softrdma misses nothing; see wakeupTimes
		s.deadline = now + wakeupTimes[0]
	}
	s.tell(Established, reason.Detail{}, private)
}

// refuseFrame ends a set-up because of a wrong frame. An initiator tells its peer by a
// Terminate (RFC 5044 8), a responder by closing.
func (s *Stream) refuseFrame(now time.Duration, d reason.Detail) {
	reply := s.state == awaitReply
	s.refuse(now, d)
	if reply {
		s.terminate(iwarp.TermMPAFrame, nil, !s.setup.Params().NoCRC)
	}
}

// terminate queues a Terminate after what is already queued.
func (s *Stream) terminate(t iwarp.Term, header []byte, crc bool) {
	var b [iwarp.MaxTerminate + 4 + iwarp.CRCLen]byte
	n := iwarp.UntaggedLen + iwarp.PutTermination(b[iwarp.UntaggedLen:], t, header)
	// RFC 5040 5.4: the first and only message of its queue.
	seg := iwarp.Segment{Length: uint16(n - iwarp.LengthLen), Last: true, Opcode: iwarp.Terminate, Queue: iwarp.QueueTerminate, MSN: 1}
	seg.Put(b[:])
	n += iwarp.PadLen(n - iwarp.LengthLen)
	if crc {
		iwarp.PutCRC(b[n:], iwarp.UpdateCRC(0, b[:n]))
	}
	s.out = append(s.out, b[:n+iwarp.CRCLen]...)
}
