package cma

import (
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
)

// A Route is the path to the peer: found by ResolveRoute or taken from a connect
// request.
type Route struct {
	Path           qp.Path
	MTU            int   // path MTU in bytes
	PacketLifeTime uint8 // field: 4.096 µs × 2^PacketLifeTime

	// On an InfiniBand fabric:
	GID  netip.Addr // of the peer's port
	PKey uint16
	Rate uint8 // as in path records
}

// An ID is one communication identifier: rdma_cm_id. Its methods may be called
// from any goroutine.
type ID struct {
	// Context belongs to the user. The new id of a connect request inherits its
	// listener's, which therefore must not change after Listen.
	Context any

	m     *Manager
	space cmid.PortSpace
	kind  qp.Type

	// guarded by the Manager's lock
	seq       uint64 // creation order
	ch        *EventChannel
	queued    int // number of events in ch
	state     cmid.State
	local     netip.AddrPort
	remote    netip.AddrPort
	port      port // in Manager.ports; zero for none
	ephemeral bool // the Manager chose the port
	dev       *device
	route     Route
	qkey      uint32 // 0 if not set yet
	option    options
	groups    []*group

	listens []listening
	backlog int
	leftOut []error

	conn    connection  // of either side
	lookup  *cm.Lookup  // look-up of a UD id
	inquiry *cm.Inquiry // look-up that this id answers
	waiting bool        // a request that was not accepted yet
	lost    error       // why the waiting request has become void
}

// PortSpace returns the id's port space.
func (id *ID) PortSpace() cmid.PortSpace { return id.space }

// Type returns the service type of the id's queue pair.
func (id *ID) Type() qp.Type { return id.kind }

// State returns the id's state.
func (id *ID) State() cmid.State {
	id.m.lock()
	defer id.m.unlock()
	return id.state
}

// Channel returns the channel that the id reports to.
func (id *ID) Channel() *EventChannel {
	id.m.lock()
	defer id.m.unlock()
	return id.ch
}

// Device returns the id's device, nil if it has none.
func (id *ID) Device() *adapter.Device {
	id.m.lock()
	defer id.m.unlock()
	if id.dev == nil {
		return nil
	}
	return id.dev.dev
}

// DeviceAddr returns the address and port under which the host has the id's device
// (DeviceOptions.Place), the zero value if the id has none.
func (id *ID) DeviceAddr() netip.AddrPort {
	id.m.lock()
	defer id.m.unlock()
	switch {
	case id.dev == nil:
		return netip.AddrPort{}
	case id.dev.fabric != nil:
		return netip.AddrPortFrom(id.dev.addr(), cmid.InfiniBandPort)
	}
	return id.dev.dev.Local()
}

// Local returns the id's address and port.
func (id *ID) Local() netip.AddrPort {
	id.m.lock()
	defer id.m.unlock()
	return id.local
}

// Remote returns the peer's address and port.
func (id *ID) Remote() netip.AddrPort {
	id.m.lock()
	defer id.m.unlock()
	return id.remote
}

// Route returns the path to the peer, once it is known.
func (id *ID) Route() Route {
	id.m.lock()
	defer id.m.unlock()
	return id.route
}

// want returns an error unless the id is in one of the states.
func (id *ID) want(op string, states ...cmid.State) error {
	switch {
	case slices.Contains(states, id.state):
		return nil
	case id.state == cmid.Destroying:
		return fmt.Errorf("%s: %w", op, cmid.ErrDestroyed)
	}
	return &cmid.StateError{Op: op, Expected: states, Found: id.state}
}

// Destroy ends the id in any state. A request is withdrawn or rejected, and a
// connection ends without waiting for the peer. The id has no events afterwards.
// Requests that a listener has queued are rejected.
func (id *ID) Destroy() {
	id.m.lock()
	defer id.m.unlock()
	id.destroy()
}

func (id *ID) destroy() {
	if id.state == cmid.Destroying {
		return
	}
	id.state = cmid.Destroying
	for _, e := range id.ch.drop(id, all) {
		if e.Listener != nil {
			e.ID.destroy()
		}
	}
	id.release()
	delete(id.ch.ids, id)
	id.m.ids--
}

// release releases the id's device and port.
func (id *ID) release() {
	id.unlisten()
	if id.dev != nil {
		id.abandon()
		id.leave()
	}
	for _, g := range id.groups {
		g.leave()
	}
	id.groups = nil
	id.m.dropPort(id)
}
