// Package infiniband is the encapsulation of InfiniBand's own links: packets with a local
// route header, and a GRH where the path is global (IBTA 7.7, 8.3). It owns both
// headers, the ICRC over them, and which LIDs and GIDs are the port's.
//
//	+--------+-----------------+-----+---------+------+
//	| LRH: 8 | GRH: 40, if the | BTH | payload | ICRC |
//	|        | path is global  | ... |         | 4    |
//	+--------+-----------------+-----+---------+------+
//
// The VCRC behind the packet and the virtual lane in the LRH change at each hop. They
// belong to the link.
//
// An endpoint is a GID with a LID as its port number. Endpoints of paths without a GRH
// have LocalGID for their LID in place of a GID.
package infiniband

import (
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A Link carries packets from LRH to ICRC by one port of a fabric.
type Link interface {
	link.Packets

	// LID is the port's first LID, 0 before the subnet manager has given it one. The
	// port has 1<<lmc of them. Any goroutine may call it.
	LID() (first ib.LID, lmc uint8)
}

// A Network is a frame.Network of one port.
type Network struct {
	link    Link
	local   qp.Endpoint
	gid     netip.Addr
	groups  []netip.Addr
	last    *source // what Arrive returned last
	sources sources
	checker ib.Checker
}

var _ frame.Network = (*Network)(nil)

// New makes the network of a port with a GID.
func New(l Link, gid netip.Addr) *Network {
	return &Network{link: l, local: netip.AddrPortFrom(gid, 0), gid: gid, last: &source{}}
}

// LocalGID stands for a GID in endpoints of paths without a GRH. It is an address of the
// discard prefix (RFC 6666), which no port has.
func LocalGID(lid ib.LID) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 1, 14: byte(lid >> 8), 15: byte(lid)})
}

// LocalEndpoint is the endpoint of a path without a GRH.
func LocalEndpoint(lid ib.LID) qp.Endpoint { return netip.AddrPortFrom(LocalGID(lid), uint16(lid)) }

// GlobalEndpoint is the endpoint of a path with a GRH. The LID is that of the port, or of
// the router that leads to it.
func GlobalEndpoint(gid netip.Addr, lid ib.LID) qp.Endpoint {
	return netip.AddrPortFrom(gid, uint16(lid))
}

// lidOf is the LID of an endpoint.
func lidOf(e qp.Endpoint) ib.LID { return ib.LID(e.Port()) }

// global reports whether a path to the endpoint has a GRH.
func global(e qp.Endpoint) bool { return e.Addr() != LocalGID(lidOf(e)) }

// Kind implements frame.Network.
func (n *Network) Kind() string { return "InfiniBand" }

// Link implements frame.Network.
func (n *Network) Link() link.Packets { return n.link }

// Local implements frame.Network. The LID may change, so that it is not a part of it.
func (n *Network) Local() qp.Endpoint { return n.local }

// Standard implements frame.Network.
func (n *Network) Standard() bool { return true }

// GroupGID implements frame.Network. IP groups have the GIDs of IP over InfiniBand on the
// default partition (RFC 4391 4), of link-local scope.
func (n *Network) GroupGID(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	b := [16]byte{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x1b, 4: 0xff, 5: 0xff}
	if ip.Is4() {
		v := ip.As4()
		copy(b[12:], v[:])
		b[12] &= 0x0f
		return netip.AddrFrom16(b)
	}
	v := ip.As16()
	b[2], b[3] = 0x60, 0x1b
	copy(b[6:], v[6:])
	return netip.AddrFrom16(b)
}

// Key implements frame.Network. The ICRC of a local packet covers its service level, and
// switches choose the path by the destination's LID alone.
func (n *Network) Key(path *qp.Path, _, _ uint32) frame.Key {
	return frame.Key{Dst: path.Dst, Slot: uint32(path.ServiceLevel)<<20 | path.FlowLabel}
}

// Open implements frame.Network.
func (n *Network) Open(path *qp.Path, _ uint32) (*frame.Flow, error) {
	to := lidOf(path.Dst)
	if to == 0 || to == ib.PermissiveLID {
		return nil, fmt.Errorf("LID %d: expected that of a port or of a group", to)
	}
	from, _ := n.link.LID()
	if from == 0 {
		return nil, errNoLID
	}
	return n.flow(path, from), nil
}

// Reply implements frame.Network.
func (n *Network) Reply(path *qp.Path) (*frame.Flow, error) { return n.Open(path, 0) }

// Close implements frame.Network.
func (n *Network) Close(*frame.Flow) {}

// Join implements frame.Network. The subnet's administrator leads the group's packets to
// the port, which the caller has asked it for.
func (n *Network) Join(group netip.Addr) error {
	if !group.Is6() || !group.IsMulticast() {
		return fmt.Errorf("%v: expected a multicast GID", group)
	}
	n.groups = append(n.groups, group)
	return nil
}

// Leave implements frame.Network.
func (n *Network) Leave(group netip.Addr) error {
	i := slices.Index(n.groups, group)
	if i < 0 {
		return fmt.Errorf("%v: not a group of this device", group)
	}
	n.groups = slices.Delete(n.groups, i, i+1)
	return nil
}

// PutGRH implements frame.Network (IBTA 11.4.1.2). A packet that has no GRH leaves these
// bytes undefined; they are zero.
func (n *Network) PutGRH(b []byte, src, dst qp.Endpoint, c frame.Class, length int) {
	if !global(src) {
		clear(b[:ib.GRHLen])
		return
	}
	h := ib.GRH{
		TrafficClass: c.TrafficClass, PayLen: uint16(length), NextHeader: ib.NextBTH, HopLimit: c.HopLimit,
		SGID: src.Addr().As16(), DGID: dst.Addr().As16(),
	}
	h.Put(b)
}
