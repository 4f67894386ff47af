// Package rocev1 is the encapsulation of RoCE v1 (annex A16): packets with a GRH in
// Ethernet frames of EtherType 0x8915, in one broadcast domain. It owns the GRH, the ICRC over it, the MAC addresses of GIDs, and
// the filter of the frames that are for a device.
//
//	+----------------+-------------+--------+-----+---------+------+-----+
//	| Ethernet: 14   | 802.1Q: 4,  | GRH:   | BTH | payload | ICRC | FCS |
//	| type 0x8915    | in a VLAN   | 40     | ... |         | 4    | 4   |
//	+----------------+-------------+--------+-----+---------+------+-----+
//
// A GID is an IP address of the interface, IPv4 as an IPv4-mapped one, or fe80::/64 with
// the EUI-64 of its MAC address. The EtherType is the number of all endpoints, so that
// they differ from those of other protocols.
//
// It sends, receives and asks for nothing: that is its link's business.
package rocev1

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

const (
	// openWait is how long Open waits for the answer to a neighbour look-up: more than
	// one takes in a local network. The lane stands still meanwhile.
	openWait = 10 * time.Millisecond

	// resolveWait is how long Resolve waits, as Linux does.
	resolveWait = time.Second
)

// EtherType is that of frames of RoCE v1 (annex A16).
const EtherType = ethernet.TypeRoCE

// A Network is a frame.Network of RoCE v1.
type Network struct {
	link        link.Frames
	local       qp.Endpoint
	gid         netip.Addr // of local, without a zone
	lane, lanes int
	mac         ethernet.MAC
	vlan        uint16
	tagged      bool
	groups      []netip.Addr

	sources sources
	last    *source // what Arrive returned last
	checker ib.Checker
}

var _ frame.Network = (*Network)(nil)

// Networks makes the networks of several lanes' links, which have one GID. They are the lanes of
// share from its first one on.
func Networks[L link.Frames](gid netip.Addr, share steering.Share, links []L) (all []frame.Network, err error) {
	for i, l := range links {
		n, err := newNetwork(l, gid, share.First+i, share.Of)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func newNetwork(l link.Frames, gid netip.Addr, lane, lanes int) (*Network, error) {
	n := &Network{link: l, local: endpoint(gid), gid: wireGID(gid), lane: lane, lanes: lanes, mac: l.MAC()}
	n.vlan, n.tagged = l.VLAN()
	n.last = &source{}
	return n, l.Filter(n.filter())
}

// Kind implements frame.Network.
func (n *Network) Kind() string { return "RoCE v1" }

// Link implements frame.Network.
func (n *Network) Link() link.Packets { return n.link }

// Local implements frame.Network.
func (n *Network) Local() qp.Endpoint { return n.local }

// Standard implements frame.Network.
func (n *Network) Standard() bool { return true }

// GroupGID implements frame.Network. IPv4 groups have GIDs in ff0e::ffff:0:0/96, as
// Linux's rdma_cm maps them for RoCE v1.
func (n *Network) GroupGID(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if !ip.Is4() {
		return ip
	}
	b := ip.As16()
	b[0], b[1] = 0xff, 0x0e
	return netip.AddrFrom16(b)
}

// Key implements frame.Network. Switches of one broadcast domain choose no path by
// what is in a packet, so that a flow differs by its header alone.
func (n *Network) Key(path *qp.Path, _, _ uint32) frame.Key {
	return frame.Key{Dst: endpoint(wireGID(path.Dst.Addr())), Slot: path.FlowLabel}
}

// Open implements frame.Network.
func (n *Network) Open(path *qp.Path, _ uint32) (*frame.Flow, error) {
	mac, via, err := n.resolve(path.Dst.Addr(), openWait, false)
	if err != nil {
		return nil, err
	}
	return n.flow(via, mac, path), nil
}

// Offline implements frame.Offline. The frames have no MAC address to go to, as those to devices
// on this host.
func (n *Network) Offline(path *qp.Path) *frame.Flow {
	return n.flow(n.link.Host(), ethernet.MAC{}, path)
}

// Resolve implements frame.Resolver.
func (n *Network) Resolve(path *qp.Path) error {
	_, _, err := n.resolve(path.Dst.Addr(), resolveWait, true)
	return err
}

// resolve returns the MAC address of a GID and how frames get there. It waits for an
// answer of the network; for one that the system has been asking for before only where
// it is patient.
func (n *Network) resolve(gid netip.Addr, wait time.Duration, patient bool) (mac ethernet.MAC, via *link.Flow, err error) {
	gid = wireGID(gid)
	if mac, is := MulticastMAC(gid); is {
		return mac, n.link.Everywhere(), nil
	}
	if gid == n.gid {
		return ethernet.MAC{}, n.link.Host(), nil
	}
	if mac, is := EUI64MAC(gid); is {
		return mac, n.link.Wire(), nil
	}
	known, err := n.link.Known(gid)
	switch {
	case err != nil:
		return mac, nil, err
	case known.Local:
		return ethernet.MAC{}, n.link.Host(), nil
	case known.Known:
		return known.MAC, n.link.Wire(), nil
	case known.Asking && !patient:
		wait = 0
	}
	found, err := n.link.Ask(gid, wait)
	return found, n.link.Wire(), err
}

// Reply implements frame.Network. The answer goes to where the question came from, so
// that no peer makes this host look for neighbours that are not there.
func (n *Network) Reply(path *qp.Path) (*frame.Flow, error) {
	s := n.sources.from(wireGID(path.Dst.Addr()))
	if s == nil {
		return n.Open(path, 0)
	}
	via := n.link.Wire()
	if s.mac == (ethernet.MAC{}) {
		via = n.link.Host()
	}
	return n.flow(via, s.mac, path), nil
}

// Close implements frame.Network.
func (n *Network) Close(*frame.Flow) {}

// Join implements frame.Network.
func (n *Network) Join(group netip.Addr) error {
	group = wireGID(group)
	mac, is := MulticastMAC(group)
	if !is {
		return fmt.Errorf("%v: expected a multicast GID", group)
	}
	if err := n.link.JoinMAC(mac); err != nil {
		return err
	}
	n.groups = append(n.groups, group)
	if err := n.link.Filter(n.filter()); err != nil {
		n.groups = n.groups[:len(n.groups)-1]
		_ = n.link.LeaveMAC(mac)
		return err
	}
	return nil
}

// Leave implements frame.Network.
func (n *Network) Leave(group netip.Addr) error {
	group = wireGID(group)
	for i, g := range n.groups {
		if g == group {
			n.groups = append(n.groups[:i], n.groups[i+1:]...)
			mac, _ := MulticastMAC(group)
			if err := n.link.Filter(n.filter()); err != nil {
				return err
			}
			return n.link.LeaveMAC(mac)
		}
	}
	return fmt.Errorf("%v: not a group of this device", group)
}

// Capabilities implements frame.Network.
func (n *Network) Capabilities() frame.Capabilities {
	return frame.Capabilities{Resolver: n, Offline: n}
}

// PutGRH implements frame.Network (IBTA 11.4.1.2).
func (n *Network) PutGRH(b []byte, src, dst qp.Endpoint, c frame.Class, length int) {
	h := ib.GRH{
		TrafficClass: c.TrafficClass, PayLen: uint16(length), NextHeader: ib.NextBTH, HopLimit: c.HopLimit,
		SGID: src.Addr().As16(), DGID: dst.Addr().As16(),
	}
	h.Put(b)
}
