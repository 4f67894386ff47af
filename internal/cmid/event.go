package cmid

import (
	"fmt"

	"softrdma/internal/qp"
)

// An EventType is the type of an event of an id. The numbers are those of rdma_cm_event_type.
type EventType uint8

// The events. Those marked with a star never occur: their outcome is known when the call
// returns, or cannot happen to a device with one address.
const (
	EventAddrResolved    EventType = iota
	EventAddrError                 // no device; or a lookup returned a Q_Key that the id cannot have
	EventRouteResolved             //
	EventRouteError                // *
	EventConnectRequest            // a peer asks for a connection: there is a new id
	EventConnectResponse           // the peer accepted; accepting without parameters completes it
	EventConnectError              // *
	EventUnreachable               // the peer does not answer; or it refused a lookup
	EventRejected                  // the peer rejected the connection
	EventEstablished               // the connection is established; or a lookup found its peer
	EventDisconnected              // the connection ended, by either end or because the peer is gone
	EventDeviceRemoval             // the id has lost its device and can only be destroyed
	EventMulticastJoin             // the id joined a group
	EventMulticastError            // *
	EventAddrChange                // *
	EventTimewaitExit              // no packet of the connection can arrive any more

	// Only in librdmacm. The library writes the first two with its own EventInternal.
	EventAddrInfoResolved // rdma_resolve_addrinfo succeeded
	EventAddrInfoError    // rdma_resolve_addrinfo failed
	EventUser             // written by the program: rdma_write_cm_event
	EventInternal         // written by the library
)

var eventNames = [...]string{
	"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR",
	"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR",
	"RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
	"RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
	"RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	"RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR", "RDMA_CM_EVENT_USER", "RDMA_CM_EVENT_INTERNAL",
}

// String returns librdmacm's name.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Statuses of events that are neither a reject reason nor a SIDR status. They
// are negative error numbers of Linux on every system.
const (
	StatusAgain    = -11  // EAGAIN
	StatusNoDevice = -19  // ENODEV
	StatusInvalid  = -22  // EINVAL
	StatusReset    = -102 // ENETRESET
	StatusTimedOut = -110 // ETIMEDOUT
)

// ConnParam holds the parameters of a connection, as a caller gives them or as the peer gave
// them in an event. Zero values are sent as they are.
type ConnParam struct {
	// PrivateData goes to the peer's program. In an event it has the length of the message's
	// field: zeros follow the peer's data.
	PrivateData []byte

	ResponderResources uint8 // READs and atomics of the peer in flight
	InitiatorDepth     uint8 // READs and atomics to the peer in flight
	FlowControl        bool  // end-to-end flow control
	RetryCount         uint8 // 0 to 7; ignored when accepting
	RNRRetryCount      uint8 // 0 to 7; 7 retries without end
	AckDelay           uint8 // 5 bits: how long this end may take to acknowledge; only when accepting, not over iWARP
	SRQ                bool  // the queue pair uses a shared receive queue
	QPN                uint32
	QKey               uint32 // of a UD Accept; 0 means DefaultQKey
}

// DefaultQKey is the Q_Key of datagrams in the IP port spaces (RDMA_UDP_QKEY).
const DefaultQKey = 0x01234567

// UDParam says how to reach a datagram peer or a multicast group. An address
// handle and a datagram work request need these values.
type UDParam struct {
	PrivateData []byte
	Path        qp.Path
	QPN         uint32
	QKey        uint32
}
