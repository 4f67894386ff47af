package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// startup is what the set-up keeps of the peer's frame.
type startup struct {
	frame    []byte // as far as it came; nil when it was read
	wait     time.Duration
	head     iwarp.Frame
	enhanced iwarp.Enhanced
	asks     Agreement
}

// Connect takes the initiator's side: it sends the request, and operates on q
// when the reply has come (RFC 5044 7.1.2).
func (s *Stream) Connect(now time.Duration, q *QP, p *Params) error {
	if s.state != idle {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(s.state)}}
	}
	if err := ready(q); err != nil {
		return err
	}
	s.params = *p
	s.params.Private = nil
	if s.params.Revision == 0 {
		s.params.Revision, s.yields = iwarp.Revision2, true
	}
	if s.params.RTR == 0 {
		s.params.RTR = iwarp.RTRWrite | iwarp.RTRRead
	}
	f := iwarp.Frame{Revision: s.params.Revision, Flags: s.params.flags() | iwarp.FlagLarge}
	if p.Extensions == ExtensionsAsk {
		f.Flags |= iwarp.FlagExtOffer
	}
	var e *iwarp.Enhanced
	if f.Revision == iwarp.Revision2 {
		f.Flags |= iwarp.FlagEnhanced
		e = &iwarp.Enhanced{IRD: p.IRD, ORD: p.ORD}
		if !p.ClientServer {
			// RFC 6581 9.2: with the model goes the choice of frames.
			e.PeerToPeer, e.RTR = true, s.params.RTR
		}
	}
	if err := p.check(enhancedLen(e)); err != nil {
		return err
	}
	s.putFrame(&f, e, p.Private)
	s.q, q.s = q, s
	s.state = awaitReply
	s.request.wait = p.Timeout
	if s.request.wait == 0 {
		s.request.wait = replyTimeout
	}
	s.deadline = now + s.request.wait
	return nil
}

// Listen takes the responder's side: it waits for the request, at most as long
// as timeout says; 0 is 5 s.
func (s *Stream) Listen(now, timeout time.Duration) error {
	if s.state != idle {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(idle), Found: uint64(s.state)}}
	}
	if timeout == 0 {
		timeout = requestTimeout
	}
	s.state, s.request.wait, s.deadline = awaitRequest, timeout, now+timeout
	return nil
}

func enhancedLen(e *iwarp.Enhanced) int {
	if e == nil {
		return 0
	}
	return iwarp.EnhancedLen
}

func (p *Params) flags() (f iwarp.FrameFlags) {
	if !p.NoCRC {
		f |= iwarp.FlagCRC
	}
	if p.Markers {
		f |= iwarp.FlagMarkers
	}
	return f
}

// putFrame queues a frame for sending.
func (s *Stream) putFrame(f *iwarp.Frame, e *iwarp.Enhanced, private []byte) {
	f.Private = uint16(enhancedLen(e) + len(private))
	b := make([]byte, iwarp.FrameLen+enhancedLen(e), iwarp.FrameLen+int(f.Private))
	f.Put(b)
	if e != nil {
		e.Put(b[iwarp.FrameLen:])
	}
	s.out, s.taken = append(b, private...), 0
}

// collect takes bytes of the peer's frame, acts on it when it is complete, and
// gives the bytes behind it back.
func (s *Stream) collect(now time.Duration, b []byte) []byte {
	r := &s.request
	need := iwarp.FrameLen
	if len(r.frame) >= need {
		need += int(r.head.Private)
	}
	n := min(need-len(r.frame), len(b))
	r.frame = append(r.frame, b[:n]...)
	b = b[n:]
	if len(r.frame) < need {
		return b
	}
	if need == iwarp.FrameLen {
		if d := s.frameHead(); d.Reason != reason.None {
			s.refuseFrame(now, d)
			return nil
		}
		if r.head.Private > 0 {
			return b
		}
	}
	frame := r.frame
	private := frame[iwarp.FrameLen:]
	if r.head.Flags&iwarp.FlagEnhanced != 0 && r.head.Revision >= iwarp.Revision2 {
		r.enhanced.Parse(private)
		private = private[iwarp.EnhancedLen:]
	}
	s.deadline = machine.Never
	if s.state == awaitRequest {
		s.requested(private)
	} else {
		s.replied(now, private)
	}
	r.frame = nil
	return b
}

// foreign names what has come of a frame where it is TLS: a record of a handshake
// or, in answer to a request, of an alert (RFC 8446 5.1).
func (s *Stream) foreign() reason.Detail {
	b := s.request.frame
	if len(b) < 4 || b[0] != 0x16 && b[0] != 0x15 || b[1] != 3 {
		return reason.Detail{}
	}
	return reason.Detail{Reason: reason.MPATLS, Expected: 0x4d504120, Found: be32(b)} // "MPA "
}

// frameHead checks a frame's first part.
func (s *Stream) frameHead() reason.Detail {
	if d := s.foreign(); d.Reason != reason.None {
		return d
	}
	h := &s.request.head
	reply := s.state == awaitReply
	if f := h.Parse(s.request.frame); f != iwarp.FrameOK || h.Reply != reply {
		want := [2]uint64{0x20526571, 0x20526570} // " Req", " Rep"
		d := reason.Detail{Reason: reason.MPAKey, Expected: want[0], Found: be32(s.request.frame[6:])}
		if reply {
			d.Expected = want[1]
		}
		return d
	}
	switch {
	case h.Revision < iwarp.Revision1 || h.Revision > iwarp.Revision2:
		return reason.Detail{Reason: reason.MPARevision, Expected: iwarp.Revision2, Found: uint64(h.Revision)}
	case h.Private > iwarp.MaxPrivate:
		return reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(h.Private)}
	case h.Revision == iwarp.Revision2 && h.Flags&iwarp.FlagEnhanced != 0 && h.Private < iwarp.EnhancedLen:
		return reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.EnhancedLen, Found: uint64(h.Private)}
	}
	return reason.Detail{}
}

// refuseFrame ends a set-up whose frame is wrong. An initiator tells its peer by
// a Terminate (RFC 5044 8), a responder by closing.
func (s *Stream) refuseFrame(now time.Duration, d reason.Detail) {
	reply := s.state == awaitReply
	s.refuse(now, d)
	if reply {
		s.terminate(iwarp.TermMPAFrame, nil, !s.params.NoCRC)
	}
}

// terminate queues a Terminate behind what is queued already.
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

// requested tells the user of a request.
func (s *Stream) requested(private []byte) {
	r := &s.request
	f := r.head.Flags
	r.asks = Agreement{
		Revision: r.head.Revision, CRC: f&iwarp.FlagCRC != 0, SendMarkers: f&iwarp.FlagMarkers != 0,
		Extensions: f&iwarp.FlagExtOffer != 0, Large: f&iwarp.FlagLarge != 0,
	}
	if s.enhanced() {
		e := &r.enhanced
		r.asks.PeerToPeer, r.asks.RTR, r.asks.IRD, r.asks.ORD = e.PeerToPeer, e.RTR, e.ORD, e.IRD
	}
	s.state = requested
	s.tell(Requested, reason.Detail{}, private)
}

func (s *Stream) enhanced() bool {
	h := &s.request.head
	return h.Revision >= iwarp.Revision2 && h.Flags&iwarp.FlagEnhanced != 0
}

func be32(b []byte) uint64 {
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}
