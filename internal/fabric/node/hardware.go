package node

import (
	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

var _ hardware.Node = (*Node)(nil)

// Link implements hardware.Node. Port 0 of a switch is always up.
func (n *Node) Link(number int) hardware.Link {
	if number == 0 {
		return hardware.Link{State: smp.PortActive, Physical: smp.PhysicalLinkUp}
	}
	return n.ports[number].Link()
}

// SetLink implements hardware.Node.
func (n *Node) SetLink(number int, c hardware.LinkCommand) bool {
	return number != 0 && n.ports[number].Command(n.now, c)
}

// Configure implements hardware.Node. The limit on the time at the head of a lane is for
// switches alone (IBTA 14.2.5.6).
func (n *Node) Configure(number int, c *hardware.PortConfig) {
	if number == 0 {
		n.zero.config = *c
		return
	}
	own := *c
	if !n.config.Switch {
		own.HOQLife = hardware.Unlimited
	}
	n.ports[number].Configure(n.now, &own)
}

func (n *Node) configOf(number int) *hardware.PortConfig {
	if number == 0 {
		return &n.zero.config
	}
	return n.ports[number].Config()
}

// ConfigureSwitch implements hardware.Node.
func (n *Node) ConfigureSwitch(c *hardware.SwitchConfig) {
	t := &n.tables
	t.linearTop, t.multicastTop = c.LinearTop, c.MulticastTop
	t.primary, t.notPrimary = c.DefaultMulticastPrimary, c.DefaultMulticastNotPrimary
	n.lifeTime = c.LifeTime
}

// place returns where the lanes from one port to another are. An adapter has one table a
// port.
func (n *Node) place(in, out int) (int, int) {
	if !n.config.Switch {
		return 0, out
	}
	return in, out
}

// SLtoVL implements hardware.Node.
func (n *Node) SLtoVL(in, out int) (t smp.SLtoVL) {
	in, out = n.place(in, out)
	for sl := range t {
		if out == 0 {
			t[sl] = 0
			continue
		}
		t[sl] = n.lane(in, out, uint8(sl))
	}
	return t
}

// SetSLtoVL implements hardware.Node.
func (n *Node) SetSLtoVL(in, out int, t *smp.SLtoVL) {
	in, out = n.place(in, out)
	if out == 0 { // packets to port 0 have no lane any more
		return
	}
	if n.lanes[out] == nil {
		before := pack(n.SLtoVL(in, out))
		lanes := make([]uint64, len(n.ports))
		if !n.config.Switch {
			lanes = lanes[:1]
		}
		for i := range lanes {
			lanes[i] = before
		}
		n.lanes[out] = lanes
	}
	n.lanes[out][in] = pack(*t)
}

func pack(t smp.SLtoVL) (w uint64) {
	for sl, vl := range t {
		w |= uint64(vl&0xf) << (4 * sl)
	}
	return w
}

// Arbitration implements hardware.Node.
func (n *Node) Arbitration(number, half int) smp.VLArbitration {
	if number == 0 {
		return smp.VLArbitration{}
	}
	return n.ports[number].Arbitration(half)
}

// SetArbitration implements hardware.Node.
func (n *Node) SetArbitration(number, half int, t *smp.VLArbitration) {
	if number != 0 {
		n.ports[number].SetArbitration(half, t)
	}
}

// Partitions implements hardware.Node.
func (n *Node) Partitions(number, block int) (t smp.PKeyTable) {
	table := n.zero.partitions
	if number != 0 {
		table = n.ports[number].Partitions()
	}
	if at := block * len(t); at < len(table) {
		copy(t[:], table[at:])
	}
	return t
}

// SetPartitions implements hardware.Node.
func (n *Node) SetPartitions(number, block int, t *smp.PKeyTable) {
	table := n.zero.partitions
	if number != 0 {
		table = n.ports[number].Partitions()
	}
	table = grow(table, (block+1)*len(t), 0)
	copy(table[block*len(t):], t[:])
	used := len(table)
	for used > 0 && table[used-1] == 0 {
		used--
	}
	table = table[:used]
	if number == 0 {
		n.zero.partitions = table
		return
	}
	n.ports[number].SetPartitions(table)
}

// Forwarding implements hardware.Node.
func (n *Node) Forwarding(block int) (t smp.LinearForwarding) {
	for i := range t {
		t[i] = smp.NoPort
	}
	if at := block * len(t); at < len(n.tables.linear) {
		copy(t[:], n.tables.linear[at:])
	}
	return t
}

// SetForwarding implements hardware.Node.
func (n *Node) SetForwarding(block int, t *smp.LinearForwarding) {
	n.tables.linear = grow(n.tables.linear, (block+1)*len(t), smp.NoPort)
	copy(n.tables.linear[block*len(t):], t[:])
}

// Multicast implements hardware.Node.
func (n *Node) Multicast(block, position int) (t smp.MulticastForwarding) {
	for i := range t {
		if at := n.group(block, position, i); position < n.tables.positions && at < len(n.tables.groups) {
			t[i] = n.tables.groups[at]
		}
	}
	return t
}

// SetMulticast implements hardware.Node.
func (n *Node) SetMulticast(block, position int, t *smp.MulticastForwarding) {
	if position >= n.tables.positions { // the switch has no such ports
		return
	}
	n.tables.groups = grow(n.tables.groups, (block+1)*len(t)*n.tables.positions, 0)
	for i, mask := range t {
		n.tables.groups[n.group(block, position, i)] = mask
	}
}

func (n *Node) group(block, position, i int) int {
	return (block*len(smp.MulticastForwarding{})+i)*n.tables.positions + position
}

// Counters implements hardware.Node.
func (n *Node) Counters(number int) *hardware.Counters { return n.counters(number) }

// grow returns a slice of at least n elements, of which the new ones have a value.
func grow[T any](s []T, n int, value T) []T {
	for len(s) < n {
		s = append(s, value)
	}
	return s
}

// LID returns the LID of a port, 0 before a manager has set it. All ports of a switch have
// that of port 0.
func (n *Node) LID(number int) ib.LID {
	if n.config.Switch {
		number = 0
	}
	return ib.LID(n.configOf(number).LID)
}
