package iwarp

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Extensions says whether the messages of RFC 7306 may be used: atomics and
// immediate data. The RFC leaves it to the programs to know what their peer has.
type Extensions uint8

// The ways to know.
const (
	// ExtensionsAsk lets two ends that have them find each other by reserved
	// flags of the start-up frames; see iwarp.FlagExtOffer.
	ExtensionsAsk Extensions = iota
	// ExtensionsOff neither asks nor answers.
	ExtensionsOff
	// ExtensionsOn takes it as agreed on by other means.
	ExtensionsOn
)

// Params are what one end brings into the set-up of a connection.
type Params struct {
	Revision     uint8         // of the request: 1 or 2; 0 is 2, or 1 with a peer that knows no other, see Event.Unanswered; a reply has the request's
	NoCRC        bool          // no CRCs where the peer wants none either
	Markers      bool          // the peer shall put markers into what it sends
	ClientServer bool          // the initiator asks for no peer-to-peer connection (RFC 6581 9.2)
	RTR          iwarp.RTR     // frames that may begin a peer-to-peer connection; 0: Write and Read for an initiator, any for a responder
	IRD          uint16        // READs and atomics of the peer served at a time, at most MaxDepth
	ORD          uint16        // READs and atomics of this end in flight at a time, at most MaxDepth
	StrictIRD    bool          // an initiator refuses a reply that wants more than IRD; otherwise it serves up to MaxDepth
	MaxFPDU      int           // longest FPDU to send, markers apart; 0 is 65536 bytes to a peer that takes such, otherwise what a segment of TCP holds
	Extensions   Extensions    // messages of RFC 7306
	Patience     time.Duration // how long a responder waits for the initiator's first FPDU before it sends by itself; 0 is 250 ms, less for ever, as RFC 5044 7.1.2 has it
	Timeout      time.Duration // how long an initiator waits for the reply; 0 is 10 s
	Private      []byte        // at most 512 bytes, 508 with revision 2; Linux's siw takes 256 and 252
}

const (
	// MaxDepth is how many READs and atomics a queue pair may have in flight.
	MaxDepth = 255

	replyTimeout   = 10 * time.Second // of Linux's siw
	requestTimeout = 5 * time.Second
	closeTimeout   = 5 * time.Second

	// patience is how long a responder without a peer-to-peer connection leaves the
	// first word to its initiator. The RFC wants it to wait for ever; but initiators
	// on Linux's siw ask for no peer-to-peer connection, and programs whose server
	// speaks first expect to be served. A wait there must be, as siw drops a
	// connection when an FPDU comes before it has read the reply.
	patience = 250 * time.Millisecond
)

// minFPDU holds every message without payload, and some payload of the others.
const minFPDU = 128

// usualSegment is what a segment of TCP holds over Ethernet and IPv6: the guess
// where the link does not know better.
const usualSegment = 1440

// maxFPDU is the length of the longest FPDU to send, without its markers. Where the
// peer has not said that it takes longer ones, each fits a segment of TCP, and a
// full one fills it, so that segments begin where FPDUs do (RFC 5044 4.5, 5.1).
func (s *Stream) maxFPDU(a *Agreement) int {
	n := s.params.MaxFPDU
	switch {
	case n != 0:
	case a.Large:
		n = iwarp.MaxFPDU
	default:
		if n = s.segment; n == 0 {
			n = usualSegment
		}
		if a.SendMarkers {
			n -= iwarp.MarkerLen * ((n + iwarp.MarkerSpacing - 1) / iwarp.MarkerSpacing)
		}
	}
	most := iwarp.MaxFPDU
	if a.SendMarkers {
		most = iwarp.MaxMarkedFPDU
	}
	return min(max(n, minFPDU), most) &^ 3
}

// check finds what is wrong with the parameters of a frame with room bytes
// taken from its private data.
func (p *Params) check(taken int) error {
	if n := len(p.Private) + taken; n > iwarp.MaxPrivate {
		return &Error{reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(n)}}
	}
	if n := max(p.IRD, p.ORD); n > MaxDepth {
		return &Error{reason.Detail{Reason: reason.MPADepth, Expected: MaxDepth, Found: uint64(n)}}
	}
	if p.Revision > iwarp.Revision2 {
		return &Error{reason.Detail{Reason: reason.MPARevision, Expected: iwarp.Revision2, Found: uint64(p.Revision)}}
	}
	return nil
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

// An Error is a call that was refused. It wraps errors.ErrUnsupported where
// iWARP, or the peer, does not have what was asked for.
type Error struct{ Detail reason.Detail }

// Error gives the sentence.
func (e *Error) Error() string { return fmt.Sprintf("iWARP: %v", e.Detail) }

// Unwrap gives errors.ErrUnsupported or nil.
func (e *Error) Unwrap() error {
	switch e.Detail.Reason {
	case reason.IWARPType, reason.RDMAPExtension:
		return errors.ErrUnsupported
	}
	return nil
}

// CheckType tells whether iWARP has queue pairs of a type: RC alone. What needs
// others, datagrams and multicast, it has not either.
func CheckType(t qp.Type) error {
	if t == qp.RC {
		return nil
	}
	return &Error{reason.Detail{Reason: reason.IWARPType, Expected: uint64(qp.RC), Found: uint64(t)}}
}
