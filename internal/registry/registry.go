// Package registry knows the open devices of this process and who uses them.
//
// A Registry is the devices that can find each other: one address and port is
// one device of a registry, its devices hand each other packets in memory, and
// its connection manager makes connections on them. Process is the registry of
// the process. Others are apart from it and from each other, so that two stacks
// can run in one process.
//
// Package verbs adds and removes devices. A connection manager leases them: a
// Lease keeps a device open that the registry itself had opened, and learns when
// the program closes a device. Devices that the registry opened are closed a
// moment after their last lease.
//
// The registry owns leases and the connection manager. It never touches a queue
// pair, and opens a device only through the function that its caller gives.
package registry

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/frame"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/sa"
	"softrdma/internal/sanitize"
)

// A Handle is an open device as programs hold it: a *verbs.Device.
type Handle interface {
	Addr() netip.AddrPort
	Close() error
}

// An Entry is an open device. Its fields do not change.
type Entry struct {
	Handle   Handle
	Provider provider.Device
	Adapter  *adapter.Device
	TLS      *tls.Config  // that it was opened with
	Fabric   *attach.Port // nil unless the device is a port of a fabric
	Subnet   *sa.Client   // of the same
	Ethernet *attach.Port // nil unless the device is a port of an Ethernet fabric
	Slots    Slots        // nil unless the device's address can be shared with programs

	// Objects describes the device's objects if others than this process own some.
	Objects atomic.Pointer[func() object.List]

	// Unused reports whether no program uses a device that is there for other processes alone, whose programs
	// may have devices of their own at its address. It is nil for other devices.
	Unused atomic.Pointer[func() bool]

	registry *Registry

	// Guarded by the registry's mutex:
	leases      map[*Lease]struct{}
	own         bool        // the registry opened it
	localClient bool        // opened for a client to this machine, see connections.Reach
	idle        *time.Timer // closes an own device without leases
}

// Slots lends lanes of a device's address to other programs, each with descriptors for
// link/udp.OpenSlot, which the caller closes.
type Slots interface {
	Take() (lane int, fds []int, err error)
	Give(lane int)
	Key() [16]byte // of the address

	// Capture returns the file to which programs write their packets, "" for none.
	Capture() (path string, id [2]uint64, err error)
}

// Registry returns the registry that the device is in.
func (e *Entry) Registry() *Registry { return e.registry }

// A Registry is a set of devices. The zero value is empty and ready to use. It
// must not be copied.
type Registry struct {
	// Loopback hands packets from one device of the registry to another.
	Loopback adapter.Loopback

	// Networks, if not nil, opens the networks of a device's lanes instead of the system's sockets.
	// Simulations set it before they open a device.
	Networks func(at netip.AddrPort) ([]frame.Network, error)

	// Sanitize, if not nil, is how the use of devices is checked that have no setting of their own. It is
	// set before they are opened.
	Sanitize *sanitize.Config

	opening sync.Mutex // serialises opening and closing own devices; taken before mu

	mu   sync.Mutex
	open map[netip.AddrPort]*Entry // devices of this process

	managing sync.Once
	manager  atomic.Pointer[cma.Manager]
}

// Process is the registry of the process: where verbs.Open opens devices.
var Process = &Registry{}

// An Owner is embedded in a *verbs.Stack and keeps its registry from programs.
type Owner struct{ registry *Registry }

// NewOwner returns the Owner of a registry.
func NewOwner(r *Registry) Owner { return Owner{r} }

func (o Owner) owned() *Registry { return o.registry }

// OfStack returns the registry of a stack.
func OfStack(s interface{ owned() *Registry }) *Registry { return s.owned() }

// handles finds the entry of a handle, whatever registry it is in.
var handles struct {
	sync.Mutex
	by map[Handle]*Entry
}

// Of returns the entry of an open device, nil if the device is closed.
func Of(h Handle) *Entry {
	handles.Lock()
	defer handles.Unlock()
	return handles.by[h]
}

// All returns the open devices of the process, of all registries, in no order.
func All() (list []*Entry) {
	handles.Lock()
	defer handles.Unlock()
	for _, e := range handles.by {
		list = append(list, e)
	}
	return list
}

// Adapter returns the adapter of an open device, nil if the device is closed.
func Adapter(h Handle) *adapter.Device {
	if e := Of(h); e != nil {
		return e.Adapter
	}
	return nil
}

// Add adds a device that was opened.
func (r *Registry) Add(e *Entry) {
	e.registry, e.leases = r, make(map[*Lease]struct{})
	handles.Lock()
	if handles.by == nil {
		handles.by = make(map[Handle]*Entry)
	}
	handles.by[e.Handle] = e
	handles.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[netip.AddrPort]*Entry)
	}
	if at := e.Handle.Addr(); r.open[at] == nil { // devices that share an address are known by the first
		r.open[at] = e
	}
}

// Remove removes a device that is about to be closed, and tells its lessees. It
// must not be called by a lessee that holds its own locks. A second Remove does
// nothing.
func Remove(h Handle) {
	handles.Lock()
	e := handles.by[h]
	delete(handles.by, h)
	handles.Unlock()
	if e == nil {
		return
	}
	for _, l := range e.registry.remove(e) {
		l.closing(e.Adapter)
	}
	if e.Subnet != nil {
		e.Subnet.Close()
	}
}

// remove takes the device out of the table and returns its leases.
func (r *Registry) remove(e *Entry) (leases []*Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := e.Handle.Addr(); r.open[at] == e {
		delete(r.open, at)
	}
	for l := range e.leases {
		leases = append(leases, l)
	}
	return leases
}

// Find returns the open device of an address and port, nil if there is none.
func (r *Registry) Find(at netip.AddrPort) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[at]
}

// Claim returns the device that connections find by the address of e: e itself, unless an older
// one is open.
func (r *Registry) Claim(e *Entry) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := e.Handle.Addr()
	if r.open[at] == nil {
		r.open[at] = e
	}
	return r.open[at]
}

// Vacate closes the device on an address if the registry opened it and it is no
// longer in use, so that the program can open it.
func (r *Registry) Vacate(at netip.AddrPort) {
	r.mu.Lock()
	e := r.open[at]
	own := e != nil && e.own
	r.mu.Unlock()
	if own {
		r.closeIdle(e)
	}
}

// Count returns how many devices have a lease or were opened by the registry.
func (r *Registry) Count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.own || len(e.leases) > 0 {
			n++
		}
	}
	return n
}
