package cma

import (
	"net/netip"

	"softrdma/internal/adapter"
)

// A Host finds and opens devices. Its methods are called with the Manager
// locked: they must not call the Manager.
type Host interface {
	// Source is the local address that the host's routing gives for a peer.
	Source(dst netip.Addr, p Protocol) (netip.Addr, error)

	// PathMTU is the largest path MTU that the host knows to fit the way to a
	// peer, 0 where it knows none.
	PathMTU(dst netip.Addr) int

	// Acquire opens the device of a local address and UDP port (iWARP's have
	// none: 0) or counts one more use of it. The device may have another address than the one
	// asked for, where that is taken: an id that has not chosen its address
	// takes the device's. With Any it is the device of whatever protocol.
	Acquire(local netip.AddrPort, p Protocol) (*adapter.Device, error)

	// Release ends one use of a device.
	Release(*adapter.Device)

	// Addresses are the local addresses that a wildcard listener listens on.
	Addresses() ([]netip.Addr, error)
}

// A Chooser is a Host whose devices can be opened in several ways.
type Chooser interface {
	Host

	// AcquireAs is Acquire of a device that was, or is to be, opened in a certain
	// way, of which the host alone knows what it means; nil is no wish.
	AcquireAs(local netip.AddrPort, p Protocol, way any) (*adapter.Device, error)
}
