package rdmacm

import (
	"fmt"
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// An EventType is the type of an event. The numbers are those of
// rdma_cm_event_type.
type EventType uint8

// The events.
const (
	EventAddrResolved    EventType = 0  // ResolveAddr has succeeded
	EventAddrError       EventType = 1  // ResolveAddr has failed
	EventRouteResolved   EventType = 2  // ResolveRoute has succeeded
	EventRouteError      EventType = 3  // ResolveRoute has failed
	EventConnectRequest  EventType = 4  // a peer asks for a connection: Event.ID is a new id to accept or reject
	EventConnectResponse EventType = 5  // the peer has accepted an id without a queue pair: Establish it
	EventConnectError    EventType = 6  // the queue pair could not be moved, or the messages did not match
	EventUnreachable     EventType = 7  // the peer does not answer, or it has refused a lookup
	EventRejected        EventType = 8  // the peer has rejected
	EventEstablished     EventType = 9  // the connection is established, or a lookup has its answer
	EventDisconnected    EventType = 10 // the connection has ended
	EventDeviceRemoval   EventType = 11 // the device is gone: Destroy the id
	EventMulticastJoin   EventType = 12 // JoinMulticast has succeeded
	EventMulticastError  EventType = 13 // JoinMulticast has failed
	EventAddrChange      EventType = 14 // the device's address has changed
	EventTimewaitExit    EventType = 15 // the queue pair may be used again
)

// String returns the name of rdma_cm_event_type, as "RDMA_CM_EVENT_REJECTED".
func (t EventType) String() string { return cmid.EventType(t).String() }

// An Event is something that happened to an id (struct rdma_cm_event).
type Event struct {
	Type   EventType
	ID     *ID
	Listen *ID // EventConnectRequest: the id that listens

	// Status is 0 or librdmacm's value: for EventRejected the reject code, for a refused
	// lookup (EventUnreachable) its status, for other failures a negative errno of Linux. Err
	// describes the same: a *RejectedError, an *UnreachableError, a *ResolveError or another
	// error that names its cause.
	Status int
	Err    error

	Conn    ConnParam // the peer's parameters, in events of connections
	UD      UDParam   // in events of PortSpaceUDP, and EventMulticastJoin
	Context any       // EventMulticastJoin, EventMulticastError: the context of JoinMulticast

	group netip.Addr // of the same
	said  reason.Detail
}

// String returns the event's name and, if it failed, why.
func (e Event) String() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: %v", e.Type, e.Err)
	}
	return e.Type.String() + e.said.AfterOwn()
}

// Peer returns why a softrdma peer ended the connection (EventDisconnected), nil if it does not say so.
// It is what the peer claims.
func (e Event) Peer() verbs.ReasonError { return claimed(e.said) }

// event converts a manager's event for the program. It reports false if the program must not
// see it.
func (ch *EventChannel) event(s *source, c *provider.ConnEvent) (e Event, ok bool) {
	e = Event{Type: EventType(c.Type), Status: c.Status, Conn: connParam(&c.Conn), UD: udParam(&c.UD), Context: c.Context, group: c.Group, said: c.Said}
	if c.Type == cmid.EventConnectRequest {
		e.Listen, _ = c.Owner.(*ID)
		if e.Listen == nil || e.Listen.gone() || ch.hold(s) != nil {
			c.New.Destroy()
			return e, false
		}
		e.ID = &ID{c: c.New, ch: ch, src: s, Context: e.Listen.Context, asked: e.Conn, remoteUDP: e.Listen.remoteUDP}
		c.New.SetOwner(e.ID)
		return e, true
	}
	if e.ID, _ = c.Owner.(*ID); e.ID == nil {
		return e, false
	}
	e.UD.AV = e.ID.addressVector(&c.UD.Path)
	e.Err = e.failure(c)
	return e, e.ID.progress(&e)
}

// failure returns the error of a failed event.
func (e *Event) failure(c *provider.ConnEvent) error {
	if c.Type == cmid.EventAddrError || c.Type == cmid.EventRouteError {
		return resolveError(e.ID.RemoteAddr().String(), public(c.Err))
	}
	return public(c.Err)
}
