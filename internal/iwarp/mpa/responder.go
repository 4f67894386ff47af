package mpa

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Requested reads the initiator's requirements for this end into Asks.
func (s *Setup) Requested() {
	f := s.head.Flags
	s.Asks = Agreement{
		Revision: s.head.Revision, CRC: f&iwarp.FlagCRC != 0, SendMarkers: f&iwarp.FlagMarkers != 0,
		Extensions: f&iwarp.FlagExtOffer != 0, Large: f&iwarp.FlagLarge != 0,
	}
	if s.isEnhanced() {
		e := &s.enhanced
		s.Asks.PeerToPeer, s.Asks.RTR, s.Asks.IRD, s.Asks.ORD = e.PeerToPeer, e.RTR, e.ORD, e.IRD
	}
}

// Accept returns the reply to a request, and what both ends agree on with it.
func (s *Setup) Accept(p *Params) ([]byte, Agreement, reason.Detail) {
	s.request = nil
	asks := &s.Asks
	f := iwarp.Frame{Reply: true, Revision: asks.Revision, Flags: p.flags()}
	a := Agreement{
		Revision: asks.Revision, IRD: p.IRD, ORD: p.ORD,
		SendMarkers: asks.SendMarkers, ReceiveMarkers: p.Markers, Large: asks.Large,
	}
	// RFC 5044 7.1.1: CRCs are used if either side asks for them.
	if a.CRC = asks.CRC || !p.NoCRC; a.CRC {
		f.Flags |= iwarp.FlagCRC // Linux's siw expects the flag if it wants CRCs
	}
	if asks.Large {
		f.Flags |= iwarp.FlagLarge // is not sent to a peer that does not know the flag
	}
	switch {
	case p.Extensions == ExtensionsOn:
		a.Extensions = true
	case p.Extensions == ExtensionsAsk && asks.Extensions:
		a.Extensions = true
		f.Flags |= iwarp.FlagExtTaken
	}
	var e *iwarp.Enhanced
	if s.isEnhanced() {
		f.Flags |= iwarp.FlagEnhanced
		e = s.depths(&a)
		if d := s.peerToPeer(p, &a, e); d.Reason != reason.None {
			return nil, a, d
		}
	}
	if d := p.check(enhancedLen(e)); d.Reason != reason.None {
		return nil, a, d
	}
	s.params = *p
	s.params.Private = nil
	return build(&f, e, p.Private), a, reason.Detail{}
}

// peerToPeer agrees on the frame that begins a peer-to-peer connection (RFC 6581 9.2).
func (s *Setup) peerToPeer(p *Params, a *Agreement, e *iwarp.Enhanced) reason.Detail {
	if !s.Asks.PeerToPeer {
		return reason.Detail{}
	}
	a.PeerToPeer, a.RTR = true, chooseRTR(s.Asks.RTR, p.RTR)
	switch a.RTR {
	case 0:
		return reason.Detail{Reason: reason.MPAReady, Expected: uint64(p.RTR), Found: uint64(s.Asks.RTR)}
	case iwarp.RTRRead:
		a.IRD, e.IRD = max(a.IRD, 1), max(e.IRD, 1)
	}
	e.PeerToPeer, e.RTR = true, a.RTR
	return reason.Detail{}
}

// depths adapts a responder's IRD and ORD to the request (RFC 6581 9.1): it sends no more
// READs than the peer serves, and serves all that the peer wants if it can. A depth that the
// request leaves to the programs stays as it is, and the reply leaves it to them as well.
func (s *Setup) depths(a *Agreement) *iwarp.Enhanced {
	asks := &s.Asks
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

// Reject returns the refusal of a request.
func (s *Setup) Reject(private []byte) ([]byte, reason.Detail) {
	f := iwarp.Frame{Reply: true, Revision: s.Asks.Revision, Flags: iwarp.FlagRejected}
	if s.Asks.CRC {
		f.Flags |= iwarp.FlagCRC
	}
	var e *iwarp.Enhanced
	if s.isEnhanced() {
		f.Flags |= iwarp.FlagEnhanced
		e = &iwarp.Enhanced{IRD: s.enhanced.ORD, ORD: s.enhanced.IRD}
	}
	if n := enhancedLen(e) + len(private); n > iwarp.MaxPrivate {
		return nil, reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(n)}
	}
	return build(&f, e, private), reason.Detail{}
}
