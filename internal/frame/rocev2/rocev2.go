// Package rocev2 is the encapsulation of RoCE v2 (annex A17): packets in UDP datagrams
// over IPv4 or IPv6. It owns the choice of source ports, the ICRC over the IP and UDP
// headers with IPv4's identification, and the network header of received datagrams. The
// system's sockets write the headers themselves.
//
// It sends and receives nothing: that is its link's business.
package rocev2

import (
	"math/bits"
	"net/netip"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Network is a frame.Network of RoCE v2.
type Network struct {
	link    link.Datagrams
	sources sources
	last    *frame.Source // what Arrive returned last
	checker ib.Checker
	reply   frame.Flow
}

var _ frame.Network = (*Network)(nil)

// New makes the network of a link.
func New(l link.Datagrams) *Network {
	n := &Network{link: l}
	n.last = &frame.Source{Checker: &n.checker}
	return n
}

// Networks makes the networks of several lanes' links.
func Networks[L link.Datagrams](links []L) (all []frame.Network) {
	for _, l := range links {
		all = append(all, New(l))
	}
	return all
}

// Kind implements frame.Network.
func (n *Network) Kind() string { return "RoCE v2" }

// Link implements frame.Network.
func (n *Network) Link() link.Packets { return n.link }

// Local implements frame.Network.
func (n *Network) Local() qp.Endpoint { return n.link.Local() }

// Standard implements frame.Network (annex A17.3.2.2).
func (n *Network) Standard() bool { return n.link.Local().Port() == ib.UDPPort }

// GroupGID implements frame.Network: an IPv4 group's GID is the address mapped into
// IPv6.
func (n *Network) GroupGID(ip netip.Addr) netip.Addr { return ip.Unmap() }

// Spread is over how many flows the packets to one peer are spread, so that
// they find several paths through the network. More would take batches apart:
// each is of one flow.
const Spread = 4

// Key implements frame.Network. Packets that stay on this host have one path.
func (n *Network) Key(path *qp.Path, local, remote uint32) frame.Key {
	k := frame.Key{Dst: path.Dst}
	if a := path.Dst.Addr(); !a.IsLoopback() && a.WithZone("") != n.link.Local().Addr().WithZone("") {
		k.Slot = label(path, local, remote) * 0x9e3779b1 >> (32 - bits.Len(Spread-1)) // Fibonacci hashing
	}
	return k
}

// label is the hash that assigns packets to one of the flows to their peer: the
// address's own flow label or, without one, the queue pair numbers, as Linux does it
// (rdma_calc_flow_label).
func label(path *qp.Path, local, remote uint32) uint32 {
	v := uint64(path.FlowLabel)
	if v == 0 {
		v = uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
	}
	return uint32(v) & 0xfffff
}

// Open implements frame.Network. The source port depends on entropy and not on the flow
// label, which may come from a peer's connect request, even a forged one.
func (n *Network) Open(path *qp.Path, entropy uint32) (*frame.Flow, error) {
	f, err := n.link.OpenFlow(path.Dst, entropy)
	if err != nil {
		return nil, err
	}
	x := flowOf(f)
	return &x, nil
}

// Reply implements frame.Network.
func (n *Network) Reply(path *qp.Path) (*frame.Flow, error) {
	f, err := n.link.Reply(path.Dst)
	if err != nil {
		return nil, err
	}
	n.reply = flowOf(f)
	return &n.reply, nil
}

func flowOf(f *link.DatagramFlow) frame.Flow {
	return frame.Flow{Link: &f.Flow, Local: f.Src, Peer: f.Dst, CRC: ib.NewPseudoHeader(f.Src, f.Dst), Numbers: &f.Numbering}
}

// Close implements frame.Network.
func (n *Network) Close(f *frame.Flow) { n.link.CloseFlow(f.Link) }

// Classify implements frame.Network. The class goes with each batch (link.Tx), and the
// system writes it.
func (n *Network) Classify(f *frame.Flow, c frame.Class) { f.Class = c }

// Arrive implements frame.Network.
func (n *Network) Arrive(rx *link.Rx) (*frame.Source, reason.Detail) {
	if rx.Refused.Reason != reason.None {
		return nil, rx.Refused
	}
	s := n.last
	if rx.Src != s.From || rx.Dst != s.To {
		s = n.sources.find(rx, &n.checker)
		n.last = s
	}
	s.Class.TrafficClass, s.Class.HopLimit, s.Intact = rx.TOS, rx.HopLimit, rx.Intact
	s.Begin()
	return s, reason.Detail{}
}

// Capabilities implements frame.Network.
func (n *Network) Capabilities() (c frame.Capabilities) {
	if x := n.link.Capabilities().Sharer; x != nil {
		c.Sharer = sharer{x}
	}
	return c
}

// A sharer is a frame.Sharer.
type sharer struct{ link link.Sharer }

// HandOver implements frame.Sharer.
func (s sharer) HandOver(packet []byte, src qp.Endpoint, c frame.Class) error {
	return s.link.HandOver(packet, src, c.TrafficClass, c.HopLimit)
}

// Join implements frame.Network.
func (n *Network) Join(group netip.Addr) error { return n.link.Join(group) }

// Leave implements frame.Network.
func (n *Network) Leave(group netip.Addr) error { return n.link.Leave(group) }

// PutGRH implements frame.Network. Annex A17.4.5.2: the IP header precedes the data,
// whichever it was.
func (n *Network) PutGRH(b []byte, src, dst qp.Endpoint, c frame.Class, length int) {
	ib.PutGRH(b, src.Addr(), dst.Addr(), c.TrafficClass, c.HopLimit, 0, length)
}

// sources are the sources that packets came from lately, one for each hash.
type sources [128]*frame.Source

// find is the source of a batch.
func (t *sources) find(rx *link.Rx, checker *ib.Checker) *frame.Source {
	a := rx.Src.Addr().As16()
	at := &t[(uint(a[13])*31+uint(a[14])*17+uint(a[15])+uint(rx.Src.Port())*5)%uint(len(t))]
	if s := *at; s != nil && s.From == rx.Src && s.To == rx.Dst {
		return s
	}
	if *at == nil {
		*at = new(frame.Source)
	}
	**at = frame.Source{From: rx.Src, To: rx.Dst, CRC: ib.NewPseudoHeader(rx.Src, rx.Dst), Checker: checker}
	return *at
}
