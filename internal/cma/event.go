package cma

import (
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// An Event is one event of an id. It is a value and needs no acknowledgement.
// Either Conn or UD is set, according to the id's service type.
type Event struct {
	Type     cmid.EventType
	ID       *ID // the id that the event concerns; for a connect request the new id
	Listener *ID // for a connect request: the listening id

	// Status is 0 or the reason of a failure: a negative error number
	// (StatusTimedOut, …), or a positive reject reason (EventRejected) or SIDR
	// status (EventUnreachable of a UD id).
	Status int

	// Err describes the failure, nil if Status is 0. Detail is the named reason
	// with both numbers.
	Err    error
	Detail reason.Detail

	Said reason.Detail // EventDisconnected: why a softrdma peer ended the connection, if it says so

	Conn cmid.ConnParam // RC and UC
	UD   cmid.UDParam   // UD, and multicast

	Argument uint64 // for EventUser and EventInternal: what WriteEvent was given

	Group   netip.Addr // for multicast events
	Context any        // for multicast events: the context that was passed to JoinMulticast
}
