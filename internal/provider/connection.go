package provider

import (
	"crypto/tls"
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A ConnectionManager makes event channels. What ids, events and errors mean is
// in package cmid.
type ConnectionManager interface {
	// NewEventChannel makes an event channel. Wake is called when Poll may have
	// an event again. It must neither block nor call the channel.
	NewEventChannel(wake func()) (EventChannel, error)
}

// An EventChannel queues the events of its ids.
type EventChannel interface {
	// NewID makes an id. Type 0 means the service type of the port space. Owner
	// is the caller's own object: events name the id by it.
	NewID(space cmid.PortSpace, t qp.Type, owner any) (ID, error)

	// Poll returns the oldest event and reports whether there was one.
	Poll() (ConnEvent, bool)

	// Close destroys the channel's ids and ends the channel.
	Close() error
}

// A ConnEvent is an event of an id.
type ConnEvent struct {
	Type   cmid.EventType
	Owner  any // of the id; of a connect request, of the id that listens
	New    ID  // of a connect request: the new id, which the caller owns
	Status int // 0, a reject reason, a SIDR status or one of cmid.Status…
	Err    error
	Said   reason.Detail // of a disconnect: why a softrdma peer ended the connection, if it says so
	Conn   cmid.ConnParam
	UD     cmid.UDParam

	Group   netip.Addr // of multicast events
	Context any        // of multicast events: what JoinMulticast was given
}

// An ID is a communication identifier.
type ID interface {
	Identity
	Options
	Addresses
	Connection
	Multicast

	// SetOwner sets the owner of the new id of a connect request.
	SetOwner(owner any)

	// Migrate makes the id report to another channel of the same manager. Events
	// that Poll has not returned yet move with it.
	Migrate(to EventChannel) error

	// Destroy ends the id in any state. No event of the id follows.
	Destroy()
}

// Identity describes an id: its type, state, addresses and device.
type Identity interface {
	PortSpace() cmid.PortSpace
	Type() qp.Type
	State() cmid.State
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Device returns the address and port of the id's device if that is a device
	// of this process, else the zero value.
	Device() netip.AddrPort

	// Removed reports whether the id has lost its device.
	Removed() bool
}

// Options change an id before the call that they affect.
type Options interface {
	SetTOS(tos uint8) error
	SetReuseAddr(on bool) error
	SetAFOnly(on bool) error
	SetAckTimeout(field uint8) error
	SetMinRNRTimer(field uint8) error
	SetUDPPorts(local, remote uint16) error
	SetResponseTimeout(field, retries uint8) error
	SetProtocol(p cmid.Protocol) error

	// SetTLS makes the id use a device with a TLS configuration (RoCE v2 and iWARP).
	SetTLS(cfg *tls.Config) error
}

// Addresses find the device of an id and the path to its peer.
type Addresses interface {
	Bind(local netip.AddrPort) error
	ResolveAddr(src, dst netip.AddrPort) error
	ResolveRoute() error
	Listen(backlog int) error

	// LeftOut returns why a listener on every device does not listen on some.
	LeftOut() []error
}

// Connection sets up and ends the connection of an id.
type Connection interface {
	InitQPAttr(to qp.State) (qp.Mask, qp.Attr, error)
	Connect(p *cmid.ConnParam) error
	Accept(p *cmid.ConnParam) error
	Reject(private []byte) error

	// Decline says why Destroy rejects a request that was not answered: a softrdma peer is told.
	Decline(why reason.Detail)
	Disconnect() error
	Establish() error
}

// Multicast joins and leaves groups.
type Multicast interface {
	JoinMulticast(addr netip.Addr, context any) error
	JoinMulticastToSend(addr netip.Addr, context any) error
	LeaveMulticast(addr netip.Addr) error
}
