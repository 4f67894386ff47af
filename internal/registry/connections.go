package registry

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/host"
)

// Connections returns the connection manager over the registry's devices. The
// first call makes it, with the function that opens devices which are not open;
// nil restricts it to open devices.
func (r *Registry) Connections(open Opener) *cma.Manager {
	r.managing.Do(func() {
		c := &connections{r: r, open: open}
		c.m = cma.New(c, cma.Config{})
		r.manager.Store(c.m)
	})
	return r.manager.Load()
}

// connections is the host of a registry's connection manager.
type connections struct {
	r    *Registry
	open Opener
	m    *cma.Manager
}

// request returns the lease request for the device of a local address.
func (c *connections) request(at netip.AddrPort, o *cma.DeviceOptions) Request {
	return Request{At: at, TLS: o.TLS, Open: c.open, Closing: c.m.RemoveDevice}
}

// Acquire implements cma.Host.
func (c *connections) Acquire(local netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	local = host.NamedZone(local)
	if o.Protocol == cmid.InfiniBand && c.r.Find(o.Place(local)) == nil {
		return nil, fmt.Errorf("no open port of a fabric has the address %v: %w", local, syscall.EADDRNOTAVAIL)
	}
	return leased(c.r.Acquire(c.request(o.Place(local), &o)))
}

// leased makes the result of Acquire one of cma.Host.
func leased(l *Lease, err error) (cma.Lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Reach implements cma.Host. It leases the device of the local address from
// which the host's routing reaches the destination.
//
// A client that connects to an address of this machine must not use an address
// and UDP port that a server may need. One address and port is one device, so
// such a client would keep the server from starting, or fail if the server is
// running. Therefore it uses the route's source address, with the MTU of that
// interface, and a random UDP port. A client to 127.0.0.0/8 instead gets a random
// address between 127.64.0.1 and 127.253.255.254, if the system has all of
// 127.0.0.0/8. If this process already has the device of the route's source
// address open, the client uses that device.
//
// RoCE v1 has no ports: its clients can only have another loopback address. iWARP
// needs none of this: any number of processes can use one address.
func (c *connections) Reach(dst netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	if o.Protocol == cmid.InfiniBand {
		return c.reachFabric(dst, &o)
	}
	if e, found := c.r.onEthernet(dst, o.Protocol); found {
		if !c.r.suits(e, o.TLS) {
			return nil, &TLSError{At: e.Handle.Addr(), TLS: e.TLS != nil}
		}
		return leased(c.r.lease(e, c.m.RemoveDevice))
	}
	src, err := host.Source(dst)
	if err != nil {
		return nil, fmt.Errorf("no route: %w", err)
	}
	l, err := c.reach(src, dst, &o)
	if err != nil {
		return nil, fmt.Errorf("no device for local address %v: %w", src, err)
	}
	return l, nil
}

// reachFabric leases an open port of a fabric. A program opens the port that it wants to use.
func (c *connections) reachFabric(dst netip.Addr, o *cma.DeviceOptions) (cma.Lease, error) {
	for _, at := range c.r.fabricPorts() {
		if at.Addr().Is4() == dst.Is4() {
			return leased(c.r.Acquire(c.request(at, o)))
		}
	}
	return nil, fmt.Errorf("no port of a fabric is open whose address is of the family of %v: %w", dst, syscall.ENETUNREACH)
}

// onEthernet returns an open device of a protocol on the Ethernet fabric that has an address: that of the
// address itself, as the system's routes do, else the first one in the order of addresses.
func (r *Registry) onEthernet(dst netip.Addr, p cmid.Protocol) (*Entry, bool) {
	var list []*Entry
	r.mu.Lock()
	for at, e := range r.open {
		if e.Ethernet != nil && (p == cmid.Any || p == protocolAt(at, e)) {
			list = append(list, e)
		}
	}
	r.mu.Unlock()
	dst = dst.Unmap()
	slices.SortFunc(list, func(a, b *Entry) int {
		x, y := a.Handle.Addr(), b.Handle.Addr()
		switch {
		case x.Addr() == dst && y.Addr() != dst:
			return -1
		case x.Addr() != dst && y.Addr() == dst:
			return 1
		}
		return x.Compare(y)
	})
	return attach.Reaching(list, func(e *Entry) *attach.Port { return e.Ethernet }, dst)
}

// protocolAt returns the protocol of a device on Ethernet that is open at an address.
func protocolAt(at netip.AddrPort, e *Entry) cmid.Protocol {
	switch {
	case e.Adapter.IWARP():
		return cmid.IWARP
	case at.Port() == cmid.RoCEv1Port:
		return cmid.RoCEv1
	}
	return cmid.RoCE
}

// fabricPorts lists the addresses of the open ports of fabrics.
func (r *Registry) fabricPorts() (list []netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, e := range r.open {
		if e.Fabric != nil {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return list
}

func (c *connections) reach(src, dst netip.Addr, o *cma.DeviceOptions) (*Lease, error) {
	c.r.opening.Lock()
	defer c.r.opening.Unlock()
	q := c.request(o.Place(src), o)
	if o.Protocol == cmid.IWARP || c.open == nil || c.r.Find(q.At) != nil {
		return c.r.acquire(q)
	}
	if here, err := host.IsLocal(dst.Unmap()); err != nil || !here {
		return c.r.acquire(q)
	}
	if o.Protocol == cmid.RoCEv1 && !(src.Is4() && src.IsLoopback()) {
		return c.r.acquire(q)
	}
	if e := c.r.findLocalClient(src, o); e != nil {
		return c.r.lease(e, q.Closing)
	}
	return c.openLocalClient(src, q)
}

// openLocalClient opens and leases a device for clients to this machine. If it
// finds no free address or port it tries the route's source address.
func (c *connections) openLocalClient(src netip.Addr, q Request) (*Lease, error) {
	draw := randomPort
	if src.Is4() && src.IsLoopback() {
		draw = func(netip.Addr) netip.AddrPort { return netip.AddrPortFrom(randomLoopback(), q.At.Port()) }
	}
	usual := q.At
	for range 64 {
		q.At = draw(src)
		e, err := c.r.findOrOpen(q)
		switch {
		case err == nil:
			c.r.mu.Lock()
			e.localClient = e.own
			c.r.mu.Unlock()
			return c.r.lease(e, q.Closing)
		case usual.Port() == cmid.RoCEv1Port:
			return nil, err
		case !host.AddressInUse(err):
			draw = randomPort // on this system 127.0.0.1 is the only loopback address
		}
	}
	q.At = usual
	return c.r.acquire(q)
}

// findLocalClient returns an open device for clients to this machine with the same
// TLS, nil if there is none. The caller holds opening.
func (r *Registry) findLocalClient(src netip.Addr, o *cma.DeviceOptions) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, e := range r.open {
		if (at.Port() == cmid.RoCEv1Port) != (o.Protocol == cmid.RoCEv1) || e.TLS != o.TLS {
			continue
		}
		loopback := at.Addr().Is4() && at.Addr().IsLoopback() && src.Is4() && src.IsLoopback()
		if e.localClient && (at.Addr() == src || loopback) {
			return e
		}
	}
	return nil
}

// randomLoopback chooses a loopback address for a client of a loopback address.
func randomLoopback() netip.Addr {
	var b [3]byte
	rand.Read(b[:])
	return netip.AddrFrom4([4]byte{127, 64 + b[0]%190, b[1], 1 + b[2]%254})
}

// randomPort chooses a UDP port from the private range (RFC 6335) for a client
// to this machine.
func randomPort(src netip.Addr) netip.AddrPort {
	var b [2]byte
	rand.Read(b[:])
	return netip.AddrPortFrom(src, 49152+binary.BigEndian.Uint16(b[:])%16384)
}

// Routed implements cma.Host.
func (c *connections) Routed(dst netip.Addr) error {
	if _, found := c.r.onEthernet(dst, cmid.Any); found {
		return nil
	}
	_, err := host.Source(dst)
	return err
}

// PathMTU implements cma.Host.
func (c *connections) PathMTU(dst netip.Addr, overhead int) int {
	if e, found := c.r.onEthernet(dst, cmid.Any); found {
		return host.MTUFor(e.Ethernet.Info().Ethernet.MTU - overhead)
	}
	return host.PathMTU(dst, overhead)
}

// Addresses implements cma.Host.
func (c *connections) Addresses() ([]netip.Addr, error) { return host.LocalAddresses() }
