// Package connect says what package rdmacm asks of a connection manager, of
// which there are two kinds: Local, package cma over the devices of this
// process, and that of a daemon's device, which is asked over a socket. What
// ids, events and errors mean is package cma's to say, for both.
//
// It holds no rule, and checks nothing that the manager checks.
package connect

import (
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/qp"
)

// A Manager makes ids on its devices.
type Manager interface {
	// NewChannel makes an event channel. Wake is called when Poll may have an
	// event again; it must not block, nor call the channel.
	NewChannel(wake func()) (Channel, error)
}

// A Channel queues the events of its ids.
type Channel interface {
	// NewID makes an id; 0 takes the service type that the port space stands for.
	// Owner is the caller's own object, by which events name the id.
	NewID(space cma.PortSpace, t qp.Type, owner any) (ID, error)

	// Poll is the next event, if there is one now.
	Poll() (Event, bool)

	// Close destroys the channel's ids, and ends it.
	Close() error
}

// An Event is one event of an id; see cma.Event.
type Event struct {
	Type    cma.EventType
	Owner   any // of the id; of a connect request of the id that listens
	New     ID  // of a connect request: the new id, which is the taker's
	Status  int
	Err     error
	Conn    cma.ConnParam
	UD      cma.UDParam
	Group   netip.Addr
	Context any
}

// An ID is one communication identifier; see cma.ID.
type ID interface {
	// SetOwner gives an owner to the new id of a connect request.
	SetOwner(owner any)

	PortSpace() cma.PortSpace
	Type() qp.Type
	State() cma.State
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Device is the device of this process that the id is on, nil before it is
	// known and where the id is on another process's.
	Device() *adapter.Device

	// Removed tells whether the id had a device that is gone.
	Removed() bool

	SetTOS(tos uint8) error
	SetReuseAddr(on bool) error
	SetAFOnly(on bool) error
	SetAckTimeout(field uint8) error
	SetMinRNRTimer(field uint8) error
	SetUDPPorts(local, remote uint16) error
	SetResponseTimeout(field, retries uint8) error
	SetProtocol(p cma.Protocol) error
	SetWay(way any) error

	Bind(local netip.AddrPort) error
	ResolveAddr(src, dst netip.AddrPort) error
	ResolveRoute() error
	Listen(backlog int) error
	LeftOut() []error
	InitQPAttr(to qp.State) (qp.Mask, qp.Attr, error)
	Connect(p *cma.ConnParam) error
	Accept(p *cma.ConnParam) error
	Reject(private []byte) error
	Disconnect() error
	Establish() error
	JoinMulticast(addr netip.Addr, context any) error
	LeaveMulticast(addr netip.Addr) error

	// Migrate makes the id report to another channel of the same manager.
	Migrate(to Channel) error
	Destroy()
}
