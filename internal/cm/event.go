package cm

import (
	"fmt"
	"net/netip"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Kind is the kind of an Event.
type Kind uint8

// The events, with the connection's state after each in parentheses.
const (
	// ReqReceived: a peer requests a connection (ReqReceived). Conn is new, or in a
	// simultaneous connect this end's own. REQ and Listener are set.
	EventReqReceived Kind = iota + 1
	// RepReceived: the peer accepted (RepReceived). REP is set.
	EventRepReceived
	// RtuReceived: the peer is ready (Established).
	EventRtuReceived
	// Established: Establish was called before the RTU came (Established).
	EventEstablished
	// RejReceived: the peer rejected (Idle; Timewait if a queue pair may have been in
	// use). Reject, ARI and Detail are set, and
	// Said if the peer says why.
	EventRejReceived
	// MraReceived: the peer takes longer (MRAReqReceived or MRARepReceived).
	// ServiceTimeout is set.
	EventMraReceived
	// DreqReceived: the peer disconnects (DreqReceived) and waits for DisconnectReply. Said is set
	// if the peer says why.
	EventDreqReceived
	// DrepReceived: the peer confirmed the disconnect (Timewait). Said is set if its own queue pair
	// had failed.
	EventDrepReceived
	// ReqTimeout: no answer to the REQ (Idle). Detail is set.
	EventReqTimeout
	// RepTimeout: no answer to the REP (Timewait). Detail is set.
	EventRepTimeout
	// DreqTimeout: no answer to the DREQ (Timewait). Detail is set.
	EventDreqTimeout
	// TimewaitExit: the time wait is over (Idle).
	EventTimewaitExit
	// StaleConnection: the peer has lost this connection and uses its queue pair for another;
	// a DREQ was sent (DreqSent). Detail is set.
	EventStaleConnection
	// SidrReqReceived: a peer asks which queue pair serves a service ID by datagrams.
	// Inquiry, SIDRReq and Listener are set.
	EventSidrReqReceived
	// SidrRepReceived: the peer answered. Lookup and SIDRRep are set, and Detail if its
	// status is not success.
	EventSidrRepReceived
	// SidrTimeout: no answer to the SIDR_REQ. Lookup and Detail are set.
	EventSidrTimeout
)

var kinds = [...]string{
	EventReqReceived:     "ReqReceived",
	EventRepReceived:     "RepReceived",
	EventRtuReceived:     "RtuReceived",
	EventEstablished:     "Established",
	EventRejReceived:     "RejReceived",
	EventMraReceived:     "MraReceived",
	EventDreqReceived:    "DreqReceived",
	EventDrepReceived:    "DrepReceived",
	EventReqTimeout:      "ReqTimeout",
	EventRepTimeout:      "RepTimeout",
	EventDreqTimeout:     "DreqTimeout",
	EventTimewaitExit:    "TimewaitExit",
	EventStaleConnection: "StaleConnection",
	EventSidrReqReceived: "SidrReqReceived",
	EventSidrRepReceived: "SidrRepReceived",
	EventSidrTimeout:     "SidrTimeout",
}

// String returns the name of the event.
func (k Kind) String() string {
	if int(k) < len(kinds) && kinds[k] != "" {
		return kinds[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// An Event reports to the user of a Manager. The Event and everything that it points to,
// except Conn, Listener, Lookup and Inquiry, belong to the Manager again when the handler
// returns.
type Event struct {
	Kind     Kind
	Conn     *Conn
	Listener *Listener
	Lookup   *Lookup
	Inquiry  *Inquiry

	REQ     *mad.REQ
	REP     *mad.REP
	SIDRReq *mad.SIDRReq
	SIDRRep *mad.SIDRRep

	// Private is the message's private data followed by zeros, because messages do not carry
	// its length. It is nil if the event has no message.
	Private []byte

	Reject         mad.RejectReason
	ARI            []byte        // additional reject information
	Said           reason.Detail // why a softrdma peer rejected or disconnected, if it says so
	ServiceTimeout uint8         // of an MRA: 4.096 µs times 2 to its power

	Source netip.AddrPort // source of the message; the zero AddrPort for timeouts
	Detail reason.Detail
}
