package cma

import (
	"fmt"
	"net/netip"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An EventType is what happened to an id; the numbers are those of
// rdma_cm_event_type.
type EventType uint8

// The events. Those marked with a star never come: what they tell of is known
// when the call returns, or does not happen to devices that are one address.
const (
	EventAddrResolved EventType = iota
	EventAddrError              // no device; or a look-up found a Q_Key that the id cannot have
	EventRouteResolved
	EventRouteError      // *
	EventConnectRequest  // Event.ID is new
	EventConnectResponse // the peer accepted; Accept(nil) completes it
	EventConnectError    // *
	EventUnreachable     // no answer; or a look-up was refused
	EventRejected        // by the peer
	EventEstablished     // the connection; or a look-up found its peer
	EventDisconnected    // by either end, or because the peer is gone
	EventDeviceRemoval   // the id has no device any more, and can only be destroyed
	EventMulticastJoin   // datagrams to the group want Event.UD
	EventMulticastError  // *
	EventAddrChange      // *
	EventTimewaitExit    // late packets of the connection must be gone
)

var eventNames = [...]string{
	"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR",
	"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR",
	"RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
	"RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
	"RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT",
}

// String gives librdmacm's name.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Statuses of events that are no reject reason and no SIDR status: negative
// error numbers of Linux, on every system.
const (
	StatusNoDevice = -19  // ENODEV
	StatusInvalid  = -22  // EINVAL
	StatusTimedOut = -110 // ETIMEDOUT
)

// An Event is one event of an id, by value: it needs no acknowledge. Of Conn
// and UD the one that fits the id's service type is filled.
type Event struct {
	Type     EventType
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

	Conn ConnParam // RC and UC
	UD   UDParam   // UD, and multicast

	Group   netip.Addr // of multicast events
	Context any        // of multicast events: what JoinMulticast was given
}

// ConnParam are the parameters of a connection as a caller gives them, or as
// the peer gave them in an event. Zero values are sent as they are.
type ConnParam struct {
	// PrivateData goes to the peer's program. An event has it with the length
	// of the message's field, zeroes behind what the peer gave.
	PrivateData []byte

	ResponderResources uint8 // READs and atomics of the peer's in flight
	InitiatorDepth     uint8 // READs and atomics to the peer in flight
	FlowControl        bool  // end-to-end flow control
	RetryCount         uint8 // 0..7; ignored when accepting
	RNRRetryCount      uint8 // 0..7, 7 is for ever
	SRQ                bool  // the queue pair has a shared receive queue
	QPN                uint32
	QKey               uint32 // of a UD Accept; 0 means DefaultQKey
}

// UDParam is how a datagram peer or a group is reached: what an address handle
// and a datagram work request want.
type UDParam struct {
	PrivateData []byte
	Path        qp.Path
	QPN         uint32
	QKey        uint32
}
