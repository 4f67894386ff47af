package mpa

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Extensions says whether the messages of RFC 7306 may be used: atomics and immediate data.
// The RFC leaves it to the programs to know what their peer supports.
type Extensions uint8

// The ways to know.
const (
	// ExtensionsAsk lets two ends that support them find each other by reserved flags of the
	// start-up frames; see iwarp.FlagExtOffer.
	ExtensionsAsk Extensions = iota
	// ExtensionsOff neither asks nor answers.
	ExtensionsOff
	// ExtensionsOn means that the programs have agreed on them by other means.
	ExtensionsOn
)

// Params are one end's parameters for the set-up of a connection.
type Params struct {
	Revision     uint8         // of the request: 1 or 2; 0 means 2, or 1 with a peer that only knows 1; a reply has the request's
	NoCRC        bool          // no CRCs if the peer wants none either
	Markers      bool          // the peer must insert markers into its stream
	ClientServer bool          // the initiator does not request a peer-to-peer connection (RFC 6581 9.2)
	RTR          iwarp.RTR     // frames that may begin a peer-to-peer connection; 0 means Write and Read for an initiator, any for a responder
	IRD          uint16        // READs and atomics of the peer served concurrently, at most MaxDepth
	ORD          uint16        // READs and atomics of this end in flight, at most MaxDepth
	StrictIRD    bool          // an initiator refuses a reply that wants more than IRD; otherwise it serves up to MaxDepth
	MaxFPDU      int           // longest FPDU to send, without markers; 0 means 65536 bytes to a peer that accepts such, otherwise the size of a TCP segment
	Extensions   Extensions    // messages of RFC 7306
	FirstWait    time.Duration // how long a responder waits for the initiator's first FPDU before it sends; 0 means 250 ms, negative means forever, as in RFC 5044 7.1.2
	Timeout      time.Duration // how long an initiator waits for the reply; 0 means 10 s
	Private      []byte        // at most 512 bytes, 508 with revision 2; Linux's siw accepts 256 and 252
}

// MaxDepth is how many READs and atomics a queue pair may have in flight.
const MaxDepth = 255

// MinFPDU holds every message without payload, and some payload of the others.
const MinFPDU = 128

// UsualSegment is the size of a TCP segment over Ethernet and IPv6, which is assumed if the
// link does not know the size.
const UsualSegment = 1440

// LongestFPDU returns the length of the longest FPDU to send, without its markers; segment is
// the size of a TCP segment, or 0 if unknown. If the peer has not said that it accepts longer
// ones, each FPDU fits a segment, and a full one fills it, so that segments begin where FPDUs
// do (RFC 5044 4.5, 5.1).
func (p *Params) LongestFPDU(a *Agreement, segment int) int {
	n := p.MaxFPDU
	switch {
	case n != 0:
	case a.Large:
		n = iwarp.MaxFPDU
	default:
		if n = segment; n == 0 {
			n = UsualSegment
		}
		if a.SendMarkers {
			n -= iwarp.MarkerLen * ((n + iwarp.MarkerSpacing - 1) / iwarp.MarkerSpacing)
		}
	}
	limit := iwarp.MaxFPDU
	if a.SendMarkers {
		limit = iwarp.MaxMarkedFPDU
	}
	return min(max(n, MinFPDU), limit) &^ 3
}

// check returns what is wrong with the parameters of a frame in which taken bytes of the
// private data are already used.
func (p *Params) check(taken int) reason.Detail {
	if n := len(p.Private) + taken; n > iwarp.MaxPrivate {
		return reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(n)}
	}
	if n := max(p.IRD, p.ORD); n > MaxDepth {
		return reason.Detail{Reason: reason.MPADepth, Expected: MaxDepth, Found: uint64(n)}
	}
	if p.Revision > iwarp.Revision2 {
		return reason.Detail{Reason: reason.MPARevision, Expected: iwarp.Revision2, Found: uint64(p.Revision)}
	}
	return reason.Detail{}
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

// An Agreement is the result of a set-up for both ends.
type Agreement struct {
	Revision       uint8
	CRC            bool
	SendMarkers    bool
	ReceiveMarkers bool
	PeerToPeer     bool
	RTR            iwarp.RTR // the frame that begins a peer-to-peer connection
	IRD, ORD       uint16
	Extensions     bool // RFC 7306
	Large          bool // the peer accepts FPDUs that are longer than TCP's segments
}
