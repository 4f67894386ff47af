package cma

import (
	"context"
	"crypto/tls"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Host finds and opens devices. Its methods are called with the Manager
// locked: they must not call the Manager.
type Host interface {
	// Reach leases the device by which an id reaches a peer, according to the
	// host's routing. The device's address becomes the id's.
	Reach(dst netip.Addr, o DeviceOptions) (Lease, error)

	// Acquire leases the device of a local address.
	Acquire(local netip.Addr, o DeviceOptions) (Lease, error)

	// Routed returns why packets to a peer cannot leave the host, nil if they can.
	Routed(dst netip.Addr) error

	// PathMTU returns the largest path MTU that the host knows to fit the path
	// to a peer, 0 if it knows none. Packets of the device are overhead bytes longer than
	// its protocol makes them.
	PathMTU(dst netip.Addr, overhead int) int

	// Addresses returns the local addresses that a wildcard listener listens on.
	Addresses() ([]netip.Addr, error)
}

// A Lease is one use of an open device. The device stays open until Release,
// unless its owner closes it: then the owner calls RemoveDevice before.
type Lease interface {
	Device() *adapter.Device

	// Fabric returns the fabric of the device, nil unless it is a port of an InfiniBand
	// fabric.
	Fabric() Fabric

	// Release ends the lease. It is called once, with the Manager locked.
	Release()
}

// A Fabric finds peers of a device on an InfiniBand fabric. Its methods but Addr and Partition wait
// for answers. The Manager is not locked then.
type Fabric interface {
	// Addr returns the IP address of the device, by which ids name it.
	Addr() netip.Addr

	// FindGID returns the GID of the port with an IP address.
	FindGID(ip netip.Addr) (netip.Addr, error)

	// FindPath asks the subnet administrator for a path to a port, for the traffic of a
	// service and a class.
	FindPath(gid netip.Addr, service mad.ServiceID, class uint8) (*FabricPath, error)

	// Partition returns the P_Key with which ids use the device, and its place in the
	// port's table. It does not wait.
	Partition() (key, index uint16)

	// DatagramKey asks the administrator for the Q_Key of IP over InfiniBand in the port's
	// partition.
	DatagramKey() (uint32, error)

	// Join makes the port a member of a multicast group.
	Join(ctx context.Context, j *FabricJoin) (*FabricGroup, error)
}

// A FabricJoin asks for a membership in a multicast group.
type FabricJoin struct {
	MGID     netip.Addr // the zero GID lets the administrator choose one
	QKey     uint32
	SendOnly bool

	// Lost is called in a goroutine of its own when the membership has ended for another
	// reason than Leave.
	Lost func(reason.Detail)
}

// A FabricGroup is a group that a port has joined.
type FabricGroup struct {
	Path qp.Path // to its members
	QKey uint32
	PKey uint16
	Rate uint8 // as in path records
	MTU  int   // bytes

	// Leave ends the membership. It is called once, and does not wait.
	Leave func()
}

// A FabricPath is a path that a subnet administrator has answered.
type FabricPath struct {
	Path     qp.Path
	GID      netip.Addr // of the port at its end
	PKey     uint16
	Rate     uint8 // as in path records
	LifeTime uint8 // of packets, field: 4.096 µs × 2^LifeTime
	MTU      int   // bytes
}

// DeviceOptions say which device of an address an id needs.
type DeviceOptions struct {
	Protocol cmid.Protocol
	UDPPort  uint16      // of a RoCE device; 0 means 4791
	TLS      *tls.Config // of the device; nil if the id does not ask for TLS
}

// Place returns the local address with the port that the device of the options
// has: a UDP port if it speaks RoCE v2, RoCEv1Port or InfiniBandPort if it speaks these,
// otherwise 0.
func (o *DeviceOptions) Place(local netip.Addr) netip.AddrPort {
	switch o.Protocol {
	case cmid.RoCE:
		return udp(local, o.UDPPort)
	case cmid.RoCEv1:
		return netip.AddrPortFrom(local, cmid.RoCEv1Port)
	case cmid.InfiniBand:
		return netip.AddrPortFrom(local, cmid.InfiniBandPort)
	}
	return netip.AddrPortFrom(local, 0)
}
