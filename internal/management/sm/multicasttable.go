package sm

import (
	"cmp"
	"maps"
	"slices"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A multicastBlock names a block of a multicast table.
type multicastBlock struct{ block, position int }

func compareBlocks(a, b multicastBlock) int {
	return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.position, b.position))
}

// programMulticast sets the blocks of the multicast tables that differ from what the switches hold.
func (m *Manager) programMulticast() {
	want := make([]map[multicastBlock]smp.MulticastForwarding, len(m.view))
	for _, g := range m.sortedGroups() {
		ends := m.groupEnds(g)
		sets := routing.Multicast(m.fabric, ends)
		m.spareSenders(g, ends, sets)
		index := int(g.record.MLID - firstMulticast)
		for i, n := range m.view {
			for position := range (len(n.ports) + 15) / 16 {
				mask := sets[i].Mask(position)
				if mask == 0 {
					continue
				}
				if want[i] == nil {
					want[i] = make(map[multicastBlock]smp.MulticastForwarding)
				}
				key := multicastBlock{index / 32, position}
				t := want[i][key]
				t[index%32] = mask
				want[i][key] = t
			}
		}
	}
	for i, n := range m.view {
		if n.isSwitch() {
			m.programMulticastSwitch(n, want[i])
		}
	}
}

// programMulticastSwitch sets the blocks of one switch.
func (m *Manager) programMulticastSwitch(n *node, want map[multicastBlock]smp.MulticastForwarding) {
	held := m.multicast[n.info.NodeGUID]
	if held == nil {
		held = make(map[multicastBlock]smp.MulticastForwarding)
		m.multicast[n.info.NodeGUID] = held
	}
	keys := maps.Clone(held)
	maps.Copy(keys, want)
	for _, key := range slices.SortedFunc(maps.Keys(keys), compareBlocks) {
		t := want[key]
		if old, ok := held[key]; ok && old == t {
			continue
		}
		held[key] = t
		m.set(n.path, smp.AttrMulticastForwarding, smp.MulticastModifier(key.position, key.block), &t, func(p *smp.Packet) {
			if p == nil {
				delete(held, key)
				m.status.Failures++ // look at everything again, in time
			}
		})
	}
}

// spareSenders takes the ports of members that only send out of the tables. The group's tree leads
// to their switches, because switches forward what comes from there along the tree.
func (m *Manager) spareSenders(g *group, ends []topology.End, sets []routing.PortSet) {
	for _, e := range ends {
		if g.members[m.fabric.Port(e).GUID].state&(sa.JoinFull|sa.JoinNon) != 0 {
			continue
		}
		if !m.view[e.Node].isSwitch() {
			if e = m.fabric.Port(e).Peer; e.Port == 0 {
				continue
			}
		}
		sets[e.Node].Remove(e.Port)
	}
}

// groupEnds are the ports of the members that the fabric has at present.
func (m *Manager) groupEnds(g *group) (ends []topology.End) {
	m.eachEnd(func(e topology.End, _ *node) {
		if g.members[m.fabric.Port(e).GUID].state != 0 {
			ends = append(ends, e)
		}
	})
	return ends
}
