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
// An endpoint is a GID with a LID as its port number, see qp.LIDEndpoint. A subnet manager
// may change the port's addresses at any time: flows that are open follow.
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

// Number stands for a UDP port in the addresses of devices: ARP's hardware type for
// InfiniBand. It tells them from the devices of other protocols on one IP address.
const Number = 32

// A Network is a frame.Network of one port.
type Network struct {
	link    link.Packets
	port    frame.Port
	local   qp.Endpoint
	flows   map[*frame.Flow]qp.Path
	groups  []netip.Addr
	last    *source // what Arrive returned last
	sources sources
	checker ib.Checker
}

var _ frame.Network = (*Network)(nil)

// New makes the network of a port, whose link carries packets from LRH to ICRC.
func New(l link.Packets, p frame.Port) *Network {
	n := &Network{link: l, flows: make(map[*frame.Flow]qp.Path), last: &source{}}
	n.Configure(&p)
	n.local = netip.AddrPortFrom(n.gid(0), 0)
	if x, ok := l.(looper); ok {
		x.Members(func(mgid []byte) bool { return slices.Contains(n.groups, netip.AddrFrom16([16]byte(mgid))) })
	}
	return n
}

// A looper is a link that loops packets of the port's own groups back.
type looper interface {
	Members(f func(mgid []byte) bool)
}

// Configure implements frame.Configurable.
func (n *Network) Configure(p *frame.Port) {
	n.port = *p
	n.last, n.sources = &source{}, sources{}
	for f, path := range n.flows {
		n.address(f, &path)
	}
}

// gid is an entry of the port's table, which may lose entries that paths name.
func (n *Network) gid(index uint8) netip.Addr {
	if int(index) >= len(n.port.GIDs) {
		return netip.IPv6Unspecified()
	}
	return n.port.GIDs[index]
}

// Global returns the endpoint of a path with a GRH. The LID is that of the port, or of the
// router that leads to it.
func Global(gid netip.Addr, lid uint16) qp.Endpoint { return netip.AddrPortFrom(gid, lid) }

// global reports whether a path to the endpoint has a GRH.
func global(e qp.Endpoint) bool { return e.Addr() != qp.LocalGID }

// Kind implements frame.Network.
func (n *Network) Kind() string { return "InfiniBand" }

// Link implements frame.Network.
func (n *Network) Link() link.Packets { return n.link }

// Local implements frame.Network. It has no LID, which may change.
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
	return frame.Key{
		Dst: path.Dst, Slot: uint32(path.ServiceLevel)<<20 | path.FlowLabel, From: uint16(path.SGIDIndex)<<8 | uint16(path.PathBits),
	}
}

// Open implements frame.Network. A flow of a port without a LID gets one with Configure; the
// port carries nothing until then.
func (n *Network) Open(path *qp.Path, _ uint32) (*frame.Flow, error) {
	f, err := n.Reply(path)
	if err == nil {
		n.flows[f] = *path
	}
	return f, err
}

// Reply implements frame.Network.
func (n *Network) Reply(path *qp.Path) (*frame.Flow, error) {
	if to := ib.LID(path.LID()); to == 0 || to == ib.PermissiveLID {
		return nil, fmt.Errorf("LID %d: expected that of a port or of a group", to)
	}
	f := &frame.Flow{}
	n.address(f, path)
	return f, nil
}

// Close implements frame.Network.
func (n *Network) Close(f *frame.Flow) { delete(n.flows, f) }

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

// Capabilities implements frame.Network.
func (n *Network) Capabilities() frame.Capabilities { return frame.Capabilities{Configurable: n} }

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
