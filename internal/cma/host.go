package cma

import (
	"crypto/tls"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/cmid"
)

// A Host finds and opens devices. Its methods are called with the Manager
// locked: they must not call the Manager.
type Host interface {
	// Reach leases the device by which an id reaches a peer, according to the
	// host's routing. The device's address becomes the id's.
	Reach(dst netip.Addr, o DeviceOptions) (Lease, error)

	// Acquire leases the device of a local address.
	Acquire(local netip.Addr, o DeviceOptions) (Lease, error)

	// PathMTU returns the largest path MTU that the host knows to fit the path
	// to a peer, 0 if it knows none.
	PathMTU(dst netip.Addr) int

	// Addresses returns the local addresses that a wildcard listener listens on.
	Addresses() ([]netip.Addr, error)
}

// A Lease is one use of an open device. The device stays open until Release,
// unless its owner closes it: then the owner calls RemoveDevice before.
type Lease interface {
	Device() *adapter.Device

	// Release ends the lease. It is called once, with the Manager locked.
	Release()
}

// DeviceOptions say which device of an address an id needs.
type DeviceOptions struct {
	Protocol cmid.Protocol
	UDPPort  uint16      // of a RoCE device; 0 means 4791
	TLS      *tls.Config // of an iWARP device; nil if the id does not ask for TLS
}

// Place returns the local address with the port that the device of the options
// has: a UDP port if it speaks RoCE v2, RoCEv1Port if it speaks RoCE v1, otherwise 0.
func (o *DeviceOptions) Place(local netip.Addr) netip.AddrPort {
	switch o.Protocol {
	case cmid.RoCE:
		return udp(local, o.UDPPort)
	case cmid.RoCEv1:
		return netip.AddrPortFrom(local, cmid.RoCEv1Port)
	}
	return netip.AddrPortFrom(local, 0)
}
