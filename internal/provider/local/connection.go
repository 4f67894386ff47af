package local

import (
	"net/netip"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
)

// Connections is a connection manager of this process.
type Connections struct{ *cma.Manager }

// NewEventChannel implements provider.ConnectionManager.
func (m Connections) NewEventChannel(wake func()) (provider.EventChannel, error) {
	return eventChannel{m.Manager.NewChannelFor(wake)}, nil
}

type eventChannel struct{ *cma.EventChannel }

// NewID implements provider.EventChannel.
func (c eventChannel) NewID(space cmid.PortSpace, t qp.Type, owner any) (provider.ID, error) {
	x, err := c.EventChannel.NewID(space, t)
	if err != nil {
		return nil, err
	}
	x.Context = owner
	return id{x}, nil
}

// Poll implements provider.EventChannel.
func (c eventChannel) Poll() (provider.ConnEvent, bool) {
	e, ok := c.EventChannel.Poll()
	if !ok {
		return provider.ConnEvent{}, false
	}
	v := provider.ConnEvent{Type: e.Type, Status: e.Status, Err: e.Err, Said: e.Said, Conn: e.Conn, UD: e.UD, Group: e.Group, Context: e.Context}
	if e.Listener != nil {
		v.Owner, v.New = e.Listener.Context, id{e.ID}
	} else {
		v.Owner = e.ID.Context
	}
	return v, true
}

type id struct{ *cma.ID }

// SetOwner implements provider.ID.
func (x id) SetOwner(owner any) { x.Context = owner }

// Device implements provider.Identity.
func (x id) Device() netip.AddrPort { return x.ID.DeviceAddr() }

// Removed implements provider.Identity.
func (x id) Removed() bool { return x.State() == cmid.DeviceRemoval }

// Migrate implements provider.ID.
func (x id) Migrate(to provider.EventChannel) error {
	return x.ID.Migrate(to.(eventChannel).EventChannel)
}

var (
	_ provider.ConnectionManager = Connections{}
	_ provider.ID                = id{}
)
