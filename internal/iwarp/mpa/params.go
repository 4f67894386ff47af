package mpa

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Extensions says whether the messages of RFC 7306 may be used: atomics and immediate
// data. The RFC leaves it to the programs to know what their peer supports.
type Extensions uint8

// The ways to know.
const (
	// ExtensionsAsk lets two ends that have them find each other by reserved flags of the
	// start-up frames; see iwarp.FlagExtOffer.
	ExtensionsAsk Extensions = iota
	// ExtensionsOff neither asks nor answers.
	ExtensionsOff
	// ExtensionsOn takes them as agreed on by other means.
	ExtensionsOn
)

// Params are what one end brings into the set-up of a connection.
type Params struct {
	Revision     uint8         // of the request: 1 or 2; 0 is 2, or 1 with a peer that knows no other; a reply has the request's
	NoCRC        bool          // no CRCs if the peer wants none either
	Markers      bool          // the peer shall put markers into what it sends
	ClientServer bool          // the initiator does not ask for a peer-to-peer connection (RFC 6581 9.2)
	RTR          iwarp.RTR     // frames that may begin a peer-to-peer connection; 0: Write and Read for an initiator, any for a responder
	IRD          uint16        // READs and atomics of the peer served at a time, at most MaxDepth
	ORD          uint16        // READs and atomics of this end in flight at a time, at most MaxDepth
	StrictIRD    bool          // an initiator refuses a reply that wants more than IRD; otherwise it serves up to MaxDepth
	MaxFPDU      int           // longest FPDU to send, markers apart; 0 is 65536 bytes to a peer that takes such, otherwise what a TCP segment holds
	Extensions   Extensions    // messages of RFC 7306
	FirstWait    time.Duration // how long a responder waits for the initiator's first FPDU before it sends by itself; 0 is 250 ms, less than 0 forever, as RFC 5044 7.1.2 has it
	Timeout      time.Duration // how long an initiator waits for the reply; 0 is 10 s
	Private      []byte        // at most 512 bytes, 508 with revision 2; Linux's siw takes 256 and 252
}

// MaxDepth is how many READs and atomics a queue pair may have in flight.
const MaxDepth = 255

// MinFPDU holds every message without payload, and some payload of the others.
const MinFPDU = 128

// UsualSegment is what a TCP segment holds over Ethernet and IPv6: the guess if the link
// does not know.
const UsualSegment = 1440

// LongestFPDU is the length of the longest FPDU to send, without its markers; segment is
// what a TCP segment holds, 0 if that is unknown. If the peer has not said that it takes
// longer ones, each FPDU fits a segment, and a full one fills it, so that segments begin
// where FPDUs do (RFC 5044 4.5, 5.1).
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
	most := iwarp.MaxFPDU
	if a.SendMarkers {
		most = iwarp.MaxMarkedFPDU
	}
	return min(max(n, MinFPDU), most) &^ 3
}

// check returns what is wrong with the parameters of a frame in which taken bytes of the
// private data are used already.
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

// An Agreement is what both ends agreed on.
type Agreement struct {
	Revision       uint8
	CRC            bool
	SendMarkers    bool
	ReceiveMarkers bool
	PeerToPeer     bool
	RTR            iwarp.RTR // the frame that begins a peer-to-peer connection
	IRD, ORD       uint16
	Extensions     bool // RFC 7306
	Large          bool // the peer takes FPDUs that are longer than TCP's segments
}
