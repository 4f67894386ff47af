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

// A Route is where packets go and how: what ResolveRoute found, or what a
// connect request gave.
type Route struct {
	Path           qp.Path
	MTU            int   // path MTU in bytes
	PacketLifeTime uint8 // field: 4.096 µs × 2^PacketLifeTime
}

// An ID is one communication identifier: rdma_cm_id. Its methods may be called
// from any goroutine.
type ID struct {
	// Context is the user's. A new id of a connect request has its listener's,
	// which therefore must not change after Listen.
	Context any

	m     *Manager
	space cmid.PortSpace
	kind  qp.Type

	// The Manager's:
	seq    uint64 // order of making
	ch     *EventChannel
	queued int // events in ch
	state  cmid.State
	local  netip.AddrPort
	remote netip.AddrPort
	port   port // in Manager.ports; zero for none
	drawn  bool // the port was, and not asked for
	dev    *device
	route  Route
	qkey   uint32 // 0 until it is decided
	option options
	groups []group

	listens []listening
	backlog int
	leftOut []error

	conn    connection  // either side
	lookup  *cm.Lookup  // of a UD id
	inquiry *cm.Inquiry // a look-up to answer
	waiting bool        // a request that nobody has accepted yet
	lost    error       // why it has gone away meanwhile
}

// PortSpace is the id's port space.
func (id *ID) PortSpace() cmid.PortSpace { return id.space }

// Type is the service type of the id's queue pair.
func (id *ID) Type() qp.Type { return id.kind }

// State is the id's state.
func (id *ID) State() cmid.State {
	id.m.lock()
	defer id.m.unlock()
	return id.state
}

// Channel is where the id reports to.
func (id *ID) Channel() *EventChannel {
	id.m.lock()
	defer id.m.unlock()
	return id.ch
}

// Device is the id's device, nil while it has none.
func (id *ID) Device() *adapter.Device {
	id.m.lock()
	defer id.m.unlock()
	if id.dev == nil {
		return nil
	}
	return id.dev.dev
}

// Local is the id's address and port.
func (id *ID) Local() netip.AddrPort {
	id.m.lock()
	defer id.m.unlock()
	return id.local
}

// Remote is the peer's address and port.
func (id *ID) Remote() netip.AddrPort {
	id.m.lock()
	defer id.m.unlock()
	return id.remote
}

// Route is where packets to the peer go, once it is known.
func (id *ID) Route() Route {
	id.m.lock()
	defer id.m.unlock()
	return id.route
}

// want refuses an operation unless the id is in one of the states.
func (id *ID) want(op string, states ...cmid.State) error {
	switch {
	case slices.Contains(states, id.state):
		return nil
	case id.state == cmid.Destroying:
		return fmt.Errorf("%s: %w", op, cmid.ErrDestroyed)
	}
	return &cmid.StateError{Op: op, Expected: states, Found: id.state}
}

// Destroy ends the id in any state: a request is withdrawn or rejected, a
// connection is ended without waiting for the peer. No event of the id comes
// after. Requests to a listener that nobody has taken are rejected.
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

// release gives up everything that the id has of devices and port spaces.
func (id *ID) release() {
	id.unlisten()
	if id.dev != nil {
		id.abandon()
		id.leave()
	}
	id.groups = nil
	id.m.dropPort(id)
}
