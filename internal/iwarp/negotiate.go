package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Accept answers a request: it sends the reply and operates on q, whose state
// becomes RTS.
func (s *Stream) Accept(now time.Duration, q *QP, p *Params) error {
	if s.state != requested {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(requested), Found: uint64(s.state)}}
	}
	if err := ready(q); err != nil {
		return err
	}
	asks := &s.request.asks
	f := iwarp.Frame{Reply: true, Revision: asks.Revision, Flags: p.flags()}
	a := Agreement{
		Revision: asks.Revision, IRD: p.IRD, ORD: p.ORD,
		SendMarkers: asks.SendMarkers, ReceiveMarkers: p.Markers, Large: asks.Large,
	}
	// RFC 5044 7.1.1: CRCs are used where either side asks for them.
	if a.CRC = asks.CRC || !p.NoCRC; a.CRC {
		f.Flags |= iwarp.FlagCRC // Linux's siw, where it wants them, wants to hear it
	}
	if asks.Large {
		f.Flags |= iwarp.FlagLarge // who does not know the flag does not get it
	}
	switch {
	case p.Extensions == ExtensionsOn:
		a.Extensions = true
	case p.Extensions == ExtensionsAsk && asks.Extensions:
		a.Extensions = true
		f.Flags |= iwarp.FlagExtTaken
	}
	var e *iwarp.Enhanced
	if s.enhanced() {
		f.Flags |= iwarp.FlagEnhanced
		e = s.depths(&a)
		if asks.PeerToPeer {
			a.PeerToPeer, a.RTR = true, chooseRTR(asks.RTR, p.RTR)
			if a.RTR == 0 {
				return &Error{reason.Detail{Reason: reason.MPAReady, Expected: uint64(p.RTR), Found: uint64(asks.RTR)}}
			}
			if a.RTR == iwarp.RTRRead {
				a.IRD, e.IRD = max(a.IRD, 1), max(e.IRD, 1)
			}
			e.PeerToPeer, e.RTR = true, a.RTR
		}
	}
	if err := p.check(enhancedLen(e)); err != nil {
		return err
	}
	s.putFrame(&f, e, p.Private)
	s.params = *p
	s.params.Private = nil
	q.operate(now, s, a)
	// RFC 5044 7.1.2: the responder sends no FPDU before it has received one.
	q.held, q.silent = true, true
	s.state = operating
	// Who offers extensions is softrdma, whose first FPDU comes in any case.
	if q.untold = a.PeerToPeer || asks.Extensions; !q.untold {
		switch {
		case p.Patience == 0:
			s.deadline = now + patience
		case p.Patience > 0:
			s.deadline = now + p.Patience
		}
		s.tell(Established, reason.Detail{}, nil)
	}
	return nil
}

// depths fits a responder's IRD and ORD to what the request asks for (RFC 6581
// 9.1): it sends no more READs than the peer serves, and serves all that the
// peer wants where it can. What the request leaves to the programs stays this
// end's, and the reply leaves it to them as well.
func (s *Stream) depths(a *Agreement) *iwarp.Enhanced {
	asks := &s.request.asks
	e := &iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: iwarp.DepthUnknown}
	if asks.ORD != iwarp.DepthUnknown {
		a.ORD = min(a.ORD, asks.ORD)
		e.ORD = a.ORD
	}
	if asks.IRD != iwarp.DepthUnknown {
		a.IRD = min(a.IRD, asks.IRD)
		e.IRD = a.IRD
	}
	return e
}

// chooseRTR chooses the frame that begins a peer-to-peer connection: Write, which
// asks for no answer, then Read, then Send. For a request that names none
// Write is proposed, as Linux's siw does.
func chooseRTR(offered, have iwarp.RTR) iwarp.RTR {
	if have == 0 {
		have = iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend
	}
	if offered == 0 {
		offered = iwarp.RTRWrite
	}
	for _, r := range [...]iwarp.RTR{iwarp.RTRWrite, iwarp.RTRRead, iwarp.RTRSend} {
		if offered&have&r != 0 {
			return r
		}
	}
	return 0
}

// Reject answers a request with a refusal, and closes.
func (s *Stream) Reject(now time.Duration, private []byte) error {
	if s.state != requested {
		return &Error{reason.Detail{Reason: reason.MPAState, Expected: uint64(requested), Found: uint64(s.state)}}
	}
	f := iwarp.Frame{Reply: true, Revision: s.request.asks.Revision, Flags: iwarp.FlagRejected}
	if s.request.asks.CRC {
		f.Flags |= iwarp.FlagCRC
	}
	var e *iwarp.Enhanced
	if s.enhanced() {
		f.Flags |= iwarp.FlagEnhanced
		e = &iwarp.Enhanced{IRD: s.request.enhanced.ORD, ORD: s.request.enhanced.IRD}
	}
	if n := enhancedLen(e) + len(private); n > iwarp.MaxPrivate {
		return &Error{reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(n)}}
	}
	s.putFrame(&f, e, private)
	s.told = true // the user knows
	s.state, s.deadline, s.shut = dead, machine.Never, ShutClose
	return nil
}

// replied acts on the reply.
func (s *Stream) replied(now time.Duration, private []byte) {
	h := &s.request.head
	p := &s.params
	if h.Flags&iwarp.FlagRejected != 0 {
		d := reason.Detail{Reason: reason.MPARejected, Expected: uint64(iwarp.FlagRejected), Found: uint64(h.Flags)}
		q := s.q
		q.refuse(d)
		q.s = nil
		s.state, s.shut = dead, ShutClose
		s.tell(Rejected, d, private)
		return
	}
	if h.Revision == iwarp.Revision1 && s.yields && p.Revision != iwarp.Revision1 {
		// RFC 6581 10 has it close instead. Hardware that took the request goes on,
		// and so do the drivers of Linux at its other end: without what only
		// revision 2 tells.
		s.q.refuse(reason.Detail{Reason: reason.MPAFallback, Expected: uint64(p.Revision), Found: uint64(h.Revision)})
	} else if h.Revision != p.Revision {
		s.refuseFrame(now, reason.Detail{Reason: reason.MPARevision, Expected: uint64(p.Revision), Found: uint64(h.Revision)})
		return
	}
	a := Agreement{
		Revision: h.Revision, IRD: p.IRD, ORD: p.ORD,
		CRC:         !p.NoCRC || h.Flags&iwarp.FlagCRC != 0,
		SendMarkers: h.Flags&iwarp.FlagMarkers != 0, ReceiveMarkers: p.Markers,
		Large: h.Flags&iwarp.FlagLarge != 0,
	}
	a.Extensions = p.Extensions == ExtensionsOn || p.Extensions == ExtensionsAsk && h.Flags&iwarp.FlagExtTaken != 0
	if h.Revision == iwarp.Revision2 {
		if !s.enhanced() {
			s.refuseFrame(now, reason.Detail{Reason: reason.MPAEnhanced, Expected: uint64(iwarp.FlagEnhanced), Found: uint64(h.Flags)})
			return
		}
		if t, d := s.fit(&a); d.Reason != reason.None {
			// RFC 6581 8: the responder operates already, and is told.
			s.refuse(now, d)
			s.terminate(t, nil, a.CRC)
			return
		}
	}
	q := s.q
	s.state = operating
	q.operate(now, s, a)
	if !a.Extensions { // softrdma does not sleep
		s.deadline = now + nudges[0]
	}
	s.tell(Established, reason.Detail{}, private)
}

// fit fits what the initiator wanted to the reply (RFC 6581 9.1, 9.2).
func (s *Stream) fit(a *Agreement) (iwarp.Term, reason.Detail) {
	p, e := &s.params, &s.request.enhanced
	if e.IRD != iwarp.DepthUnknown {
		a.ORD = min(a.ORD, e.IRD)
	}
	if e.ORD != iwarp.DepthUnknown && e.ORD > a.IRD {
		most := uint16(MaxDepth)
		if p.StrictIRD {
			most = p.IRD
		}
		if e.ORD > most {
			return iwarp.TermMPAIRD, reason.Detail{Reason: reason.MPADepth, Expected: uint64(most), Found: uint64(e.ORD)}
		}
		a.IRD = e.ORD
	}
	if p.ClientServer {
		return 0, reason.Detail{}
	}
	// Linux's siw looks at the frames alone, not at the bit of the model.
	if e.RTR&p.RTR == 0 {
		return iwarp.TermMPARTR, reason.Detail{Reason: reason.MPAReady, Expected: uint64(p.RTR), Found: uint64(e.RTR)}
	}
	a.PeerToPeer, a.RTR = true, chooseRTR(e.RTR, p.RTR)
	if a.RTR == iwarp.RTRRead && a.ORD == 0 {
		a.ORD = 1 // the frame is a READ
	}
	return 0, reason.Detail{}
}
