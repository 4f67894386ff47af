package cma

import (
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/adapter"
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

	endpoint

	// guarded by the Manager's lock
	seq    uint64 // creation order
	ch     *EventChannel
	queued int // number of events in ch
	groups []*group

	listens []listening
	backlog int
	leftOut []error

	conn     connection // of either side
	datagram datagram   // of a UD id
	waiting  bool       // a request that was not accepted yet
	lost     error      // why the waiting request has become void
}

// An endpoint is where an id stands: its state, addresses, options, device and route. The
// Manager's lock guards all but the first three fields, which do not change.
type endpoint struct {
	m     *Manager
	space cmid.PortSpace
	kind  qp.Type

	state     cmid.State
	local     netip.AddrPort
	remote    netip.AddrPort
	port      port // in Manager.ports; zero if it has none
	ephemeral bool // the Manager chose the port
	dev       *device
	route     Route
	option    options
}

// PortSpace returns the id's port space.
func (at *endpoint) PortSpace() cmid.PortSpace { return at.space }

// Type returns the service type of the id's queue pair.
func (at *endpoint) Type() qp.Type { return at.kind }

// State returns the id's state.
func (at *endpoint) State() cmid.State {
	at.m.lock()
	defer at.m.unlock()
	return at.state
}

// Channel returns the channel that the id reports to.
func (id *ID) Channel() *EventChannel {
	id.m.lock()
	defer id.m.unlock()
	return id.ch
}

// Device returns the id's device, nil if it has none.
func (at *endpoint) Device() *adapter.Device {
	at.m.lock()
	defer at.m.unlock()
	if at.dev == nil {
		return nil
	}
	return at.dev.dev
}

// DeviceAddr returns the address and port under which the host has the id's device
// (DeviceOptions.Place), the zero value if the id has none.
func (at *endpoint) DeviceAddr() netip.AddrPort {
	at.m.lock()
	defer at.m.unlock()
	switch {
	case at.dev == nil:
		return netip.AddrPort{}
	case at.dev.fabric != nil:
		return netip.AddrPortFrom(at.dev.addr(), cmid.InfiniBandPort)
	}
	return at.dev.dev.Local()
}

// Local returns the id's address and port.
func (at *endpoint) Local() netip.AddrPort {
	at.m.lock()
	defer at.m.unlock()
	return at.local
}

// Remote returns the peer's address and port.
func (at *endpoint) Remote() netip.AddrPort {
	at.m.lock()
	defer at.m.unlock()
	return at.remote
}

// Route returns the path to the peer, once it is known.
func (at *endpoint) Route() Route {
	at.m.lock()
	defer at.m.unlock()
	return at.route
}

// want returns an error unless the id is in one of the states.
func (at *endpoint) want(op string, states ...cmid.State) error {
	switch {
	case slices.Contains(states, at.state):
		return nil
	case at.state == cmid.Destroying:
		return fmt.Errorf("%s: %w", op, cmid.ErrDestroyed)
	}
	return &cmid.StateError{Op: op, Expected: states, Found: at.state}
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
