package mpa

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Request returns the initiator's frame (RFC 5044 7.1.2).
func (s *Setup) Request(p *Params) ([]byte, reason.Detail) {
	s.params = *p
	s.params.Private = nil
	if s.params.Revision == 0 {
		s.params.Revision, s.fallback = iwarp.Revision2, true
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
			// RFC 6581 9.2: frames are offered with the peer-to-peer model.
			e.PeerToPeer, e.RTR = true, s.params.RTR
		}
	}
	if d := p.check(enhancedLen(e)); d.Reason != reason.None {
		return nil, d
	}
	return build(&f, e, p.Private), reason.Detail{}
}

// An Outcome is the result of a reply.
type Outcome uint8

// The outcomes.
const (
	Agreed   Outcome = iota
	Rejected         // by the peer's program or driver
	BadFrame         // invalid frame: the peer must be told (RFC 5044 8)
	Mismatch         // no agreement: the Terminate in Term tells the peer (RFC 6581 8)
)

// A Reply is the initiator's result of the responder's frame.
type Reply struct {
	Outcome   Outcome
	Agreement Agreement
	Detail    reason.Detail // why there is no agreement; for Agreed a note, or None
	Term      iwarp.Term
}

// Reply evaluates the responder's frame.
func (s *Setup) Reply() Reply {
	h, p := &s.head, &s.params
	if h.Flags&iwarp.FlagRejected != 0 {
		return Reply{Outcome: Rejected, Detail: reason.Detail{Reason: reason.MPARejected, Expected: uint64(iwarp.FlagRejected), Found: uint64(h.Flags)}}
	}
	var note reason.Detail
	switch {
	case h.Revision == p.Revision:
	case h.Revision == iwarp.Revision1 && s.fallback:
		// RFC 6581 10 requires closing instead. Hardware that accepted the request continues,
		// as do Linux's drivers at its other end, without the features of revision 2.
		note = reason.Detail{Reason: reason.MPAFallback, Expected: uint64(p.Revision), Found: uint64(h.Revision)}
	default:
		return Reply{Outcome: BadFrame, Detail: reason.Detail{Reason: reason.MPARevision, Expected: uint64(p.Revision), Found: uint64(h.Revision)}}
	}
	a := Agreement{
		Revision: h.Revision, IRD: p.IRD, ORD: p.ORD,
		CRC:         !p.NoCRC || h.Flags&iwarp.FlagCRC != 0, // RFC 5044 7.1.1: if either side asks for it
		SendMarkers: h.Flags&iwarp.FlagMarkers != 0, ReceiveMarkers: p.Markers,
		Large: h.Flags&iwarp.FlagLarge != 0,
	}
	a.Extensions = p.Extensions == ExtensionsOn || p.Extensions == ExtensionsAsk && h.Flags&iwarp.FlagExtTaken != 0
	if h.Revision == iwarp.Revision2 {
		if !s.isEnhanced() {
			return Reply{Outcome: BadFrame, Detail: reason.Detail{Reason: reason.MPAEnhanced, Expected: uint64(iwarp.FlagEnhanced), Found: uint64(h.Flags)}}
		}
		if t, d := s.fit(&a); d.Reason != reason.None {
			return Reply{Outcome: Mismatch, Agreement: a, Detail: d, Term: t}
		}
	}
	return Reply{Agreement: a, Detail: note}
}

// fit adapts the initiator's wishes to the reply (RFC 6581 9.1, 9.2).
func (s *Setup) fit(a *Agreement) (iwarp.Term, reason.Detail) {
	p, e := &s.params, &s.enhanced
	if e.IRD != iwarp.DepthUnknown {
		a.ORD = min(a.ORD, e.IRD)
	}
	if e.ORD != iwarp.DepthUnknown && e.ORD > a.IRD {
		limit := uint16(MaxDepth)
		if p.StrictIRD {
			limit = p.IRD
		}
		if e.ORD > limit {
			return iwarp.TermMPAIRD, reason.Detail{Reason: reason.MPADepth, Expected: uint64(limit), Found: uint64(e.ORD)}
		}
		a.IRD = e.ORD
	}
	if p.ClientServer {
		return 0, reason.Detail{}
	}
	// Linux's siw looks only at the frames, not at the bit of the model.
	if e.RTR&p.RTR == 0 {
		return iwarp.TermMPARTR, reason.Detail{Reason: reason.MPAReady, Expected: uint64(p.RTR), Found: uint64(e.RTR)}
	}
	a.PeerToPeer, a.RTR = true, chooseRTR(e.RTR, p.RTR)
	if a.RTR == iwarp.RTRRead && a.ORD == 0 {
		a.ORD = 1 // the frame is a READ
	}
	return 0, reason.Detail{}
}
