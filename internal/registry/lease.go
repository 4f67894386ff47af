package registry

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/object"
)

// linger is how long a device that the registry opened stays open after its
// last lease. Successive connections then need not open it again, and the last
// messages find it open.
const linger = 250 * time.Millisecond

// An Opener opens a device of this process in the registry: of RoCE v2, of RoCE v1 if
// the port is cmid.RoCEv1Port, or of iWARP if it is 0.
type Opener func(at netip.AddrPort, security *tls.Config) (Handle, error)

// A Lease is one use of an open device.
type Lease struct {
	e       *Entry
	closing func(*adapter.Device)
}

// Device returns the leased device.
func (l *Lease) Device() *adapter.Device { return l.e.Adapter }

// Fabric implements cma.Lease.
func (l *Lease) Fabric() cma.Fabric {
	if l.e.Subnet == nil {
		return nil
	}
	return l.e.Subnet
}

// Release ends the lease.
func (l *Lease) Release() {
	r := l.e.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(l.e.leases, l)
	if len(l.e.leases) == 0 && l.e.own && r.open[l.e.Handle.Addr()] == l.e {
		l.e.idle = time.AfterFunc(linger, func() { r.closeIdle(l.e) })
	}
}

// A Request says which device a lessee needs.
type Request struct {
	At  netip.AddrPort // address, and UDP port, cmid.RoCEv1Port or 0 for iWARP
	TLS *tls.Config    // nil if the lessee does not ask for TLS

	// Open opens the device if it is not open. Nil leases open devices only.
	Open Opener

	// Closing is called when the program closes the device during the lease.
	// When it returns the lessee no longer uses the device.
	Closing func(*adapter.Device)
}

// Acquire leases the device of an address. It fails with a *TLSError if the open
// device has another TLS configuration than the request.
func (r *Registry) Acquire(q Request) (*Lease, error) {
	r.opening.Lock()
	defer r.opening.Unlock()
	return r.acquire(q)
}

// acquire is Acquire for a caller that holds opening.
func (r *Registry) acquire(q Request) (*Lease, error) {
	e, err := r.findOrOpen(q)
	if err != nil {
		return nil, err
	}
	return r.lease(e, q.Closing)
}

// lease leases a device that was found open.
func (r *Registry) lease(e *Entry, closing func(*adapter.Device)) (*Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := e.Handle.Addr()
	if r.open[at] != e { // the program has closed it since
		return nil, fmt.Errorf("device %v: %w", at, object.ErrClosed)
	}
	l := &Lease{e: e, closing: closing}
	e.leases[l] = struct{}{}
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
	return l, nil
}

// findOrOpen returns the device of a request. The caller holds opening and
// leases the device.
func (r *Registry) findOrOpen(q Request) (*Entry, error) {
	e := r.Find(q.At)
	if e != nil && !r.suits(e, q.TLS) {
		// A device of the registry that is not in use makes room for one with the right TLS.
		if !r.closeUnused(e) {
			return nil, &TLSError{At: q.At, TLS: e.TLS != nil}
		}
		e = nil
	}
	if e != nil {
		return e, nil
	}
	if q.Open == nil {
		return nil, fmt.Errorf("device %v: %w", q.At, object.ErrClosed)
	}
	h, err := q.Open(q.At, q.TLS)
	if err != nil {
		return nil, err
	}
	if e = Of(h); e == nil {
		return nil, fmt.Errorf("device %v: %w", q.At, object.ErrClosed)
	}
	r.mu.Lock()
	e.own = true
	r.mu.Unlock()
	return e, nil
}

// suits reports whether an open device has the TLS configuration that a request
// asks for. A request without TLS takes the program's device as it is.
func (r *Registry) suits(e *Entry, want *tls.Config) bool {
	if e.TLS == want {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return want == nil && !e.own
}

// closeIdle closes an own device unless it has leases.
func (r *Registry) closeIdle(e *Entry) {
	r.opening.Lock()
	defer r.opening.Unlock()
	r.closeUnused(e)
}

// closeUnused is closeIdle for a caller that holds opening, so that it cannot
// be leased meanwhile. It reports whether it closed the device.
func (r *Registry) closeUnused(e *Entry) bool {
	r.mu.Lock()
	unused := e.own && len(e.leases) == 0 && r.open[e.Handle.Addr()] == e
	r.mu.Unlock()
	if unused {
		_ = e.Handle.Close() // reports errors of captures, and it has none
	}
	return unused
}

// A TLSError is a request for a device that is open with another TLS
// configuration, or without TLS.
type TLSError struct {
	At  netip.AddrPort
	TLS bool // the open device has TLS
}

// Error names the device and says what it has.
func (e *TLSError) Error() string {
	have := "without TLS"
	if e.TLS {
		have = "with another TLS configuration"
	}
	return fmt.Sprintf("device %v is in use %s", e.At, have)
}
