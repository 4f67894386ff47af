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
func (w *writer) programMulticast(groups []*group) {
	want := make([]map[multicastBlock]smp.MulticastForwarding, len(w.subnet.view))
	for _, g := range groups {
		ends := w.groupEnds(g)
		sets := routing.Multicast(w.subnet.fabric, ends)
		w.spareSenders(g, ends, sets)
		index := int(g.record.MLID - firstMulticast)
		for i, n := range w.subnet.view {
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
	for i, n := range w.subnet.view {
		if n.isSwitch() {
			w.programMulticastSwitch(n, want[i])
		}
	}
}

// programMulticastSwitch sets the blocks of one switch.
func (w *writer) programMulticastSwitch(n *node, want map[multicastBlock]smp.MulticastForwarding) {
	held := w.multicast[n.info.NodeGUID]
	if held == nil {
		held = make(map[multicastBlock]smp.MulticastForwarding)
		w.multicast[n.info.NodeGUID] = held
	}
	keys := maps.Clone(held)
	maps.Copy(keys, want)
	for _, key := range slices.SortedFunc(maps.Keys(keys), compareBlocks) {
		t := want[key]
		if old, ok := held[key]; ok && old == t {
			continue
		}
		held[key] = t
		w.requests.set(n.path, smp.AttrMulticastForwarding, smp.MulticastModifier(key.position, key.block), &t, func(p *smp.Packet) {
			if p == nil {
				delete(held, key)
				w.incomplete()
			}
		})
	}
}

// spareSenders takes the ports of members that only send out of the tables. The group's tree leads
// to their switches, because switches forward what comes from there along the tree.
func (w *writer) spareSenders(g *group, ends []topology.End, sets []routing.PortSet) {
	for _, e := range ends {
		if g.members[w.subnet.fabric.Port(e).GUID].state&(sa.JoinFull|sa.JoinNon) != 0 {
			continue
		}
		if !w.subnet.view[e.Node].isSwitch() {
			if e = w.subnet.fabric.Port(e).Peer; e.Port == 0 {
				continue
			}
		}
		sets[e.Node].Remove(e.Port)
	}
}

// groupEnds are the ports of the members that the fabric has at present.
func (w *writer) groupEnds(g *group) (ends []topology.End) {
	w.subnet.eachEnd(func(e topology.End, _ *node) {
		if g.members[w.subnet.fabric.Port(e).GUID].state != 0 {
			ends = append(ends, e)
		}
	})
	return ends
}
