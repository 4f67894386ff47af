package connect

import (
	"softrdma/internal/cma"
	"softrdma/internal/qp"
)

// Local is a connection manager of this process.
type Local struct{ *cma.Manager }

// NewChannel implements Manager.
func (m Local) NewChannel(wake func()) (Channel, error) {
	return localChannel{m.Manager.NewChannelFor(wake)}, nil
}

type localChannel struct{ *cma.EventChannel }

// NewID implements Channel.
func (c localChannel) NewID(space cma.PortSpace, t qp.Type, owner any) (ID, error) {
	id, err := c.EventChannel.NewID(space, t)
	if err != nil {
		return nil, err
	}
	id.Context = owner
	return localID{id}, nil
}

// Poll implements Channel.
func (c localChannel) Poll() (Event, bool) {
	e, ok := c.EventChannel.Poll()
	if !ok {
		return Event{}, false
	}
	v := Event{Type: e.Type, Status: e.Status, Err: e.Err, Conn: e.Conn, UD: e.UD, Group: e.Group, Context: e.Context}
	if e.Listener != nil {
		v.Owner, v.New = e.Listener.Context, localID{e.ID}
	} else {
		v.Owner = e.ID.Context
	}
	return v, true
}

type localID struct{ *cma.ID }

// SetOwner implements ID.
func (id localID) SetOwner(owner any) { id.Context = owner }

// Removed implements ID.
func (id localID) Removed() bool { return id.State() == cma.DeviceRemoval }

// Migrate implements ID.
func (id localID) Migrate(to Channel) error { return id.ID.Migrate(to.(localChannel).EventChannel) }

var (
	_ Manager = Local{}
	_ ID      = localID{}
)
