package cma

import (
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// An Event is one event of an id, by value: it needs no acknowledge. Of Conn
// and UD the one that fits the id's service type is filled.
type Event struct {
	Type     cmid.EventType
	ID       *ID // whose event it is; of a connect request the new id
	Listener *ID // of a connect request: the id that listened

	// Status is 0, or why it failed: negative an error number (StatusTimedOut,
	// …), positive a reject reason (EventRejected) or a SIDR status
	// (EventUnreachable of a UD id).
	Status int

	// Err is why it failed in words, nil where Status is 0, and Detail the named
	// reason with both numbers.
	Err    error
	Detail reason.Detail

	Conn cmid.ConnParam // RC and UC
	UD   cmid.UDParam   // UD, and multicast

	Group   netip.Addr // of multicast events
	Context any        // of multicast events: what JoinMulticast was given
}
