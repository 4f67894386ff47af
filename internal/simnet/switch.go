package simnet

import "net/netip"

// A Port is an output port of a switch: a queue, and the cable behind it with its faults.
// Faults.Delay includes the delays of the cable and of the switch.
type Port struct {
	index int
	out   direction
}

// firstSwitchPort is the first index of ports, after those of links.
const firstSwitchPort = 1 << 20

// NewPort makes a port of a switch.
func (n *Network) NewPort(f Faults) *Port {
	i := n.ports
	n.ports++
	return &Port{index: firstSwitchPort + i, out: direction{faults: f, random: n.Random(4<<32 | uint64(i))}}
}

// Stats returns the counts of the port.
func (p *Port) Stats() Stats { return p.out.stats }

// Route puts switches in the middle of the network. f returns the output ports of a packet
// between two addresses, in order. Each packet passes these ports between the egress of its
// sender and the ingress of its receiver.
func (n *Network) Route(f func(src, dst netip.AddrPort) []*Port) { n.route = f }

// leave passes a packet through the first of the ports.
func (n *Network) leave(ports []*Port, p *packet) {
	ports[0].out.pass(n, ports[0].index, place{ports: ports[1:]}, p)
}
