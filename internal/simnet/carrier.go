package simnet

import (
	"net/netip"

	"softrdma/internal/wire/ethernet"
)

// A Transit is a packet in the middle of the network, between the egress of its sender and the
// ingress of its receiver.
type Transit struct {
	Src, Dst netip.AddrPort
	TOS      uint8 // of IP, or the traffic class of a GRH; the carrier may change it
	IP       bool  // it has an IPv4 header, otherwise it is a frame of RoCE v1
	Len      int   // bytes of the Ethernet frame, with its check sequence

	packet *packet
}

// ipLen is the length of the headers of IPv4 and UDP.
const ipLen = 20 + 8

func transit(p *packet) Transit {
	t := Transit{Src: p.src, Dst: p.dst, TOS: p.tos, IP: len(p.front) == 0, packet: p}
	t.Len = len(p.front) + len(p.data) + ethernet.CheckLen
	if t.IP {
		t.Len += ethernet.HeaderLen + ipLen
	}
	t.Len = max(t.Len, ethernet.MinLen+ethernet.CheckLen)
	return t
}

// Carry puts something in the middle of the network: f gets each packet that has left the egress
// of its sender, and has to call Arrive or Lose for it, at once or later.
func (n *Network) Carry(f func(Transit)) { n.carrier = f }

// Arrive lets a packet enter the ingress of its receiver.
func (n *Network) Arrive(t Transit) {
	p := t.packet
	p.tos = t.TOS
	l := n.find(p.dst)
	if l == nil { // closed meanwhile
		n.lose(noteUnreachable, -1, p)
		return
	}
	n.enter(l.lane(p.data), p)
}

// Lose drops a packet.
func (n *Network) Lose(t Transit) { n.lose(noteDropped, -1, t.packet) }
