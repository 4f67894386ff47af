package routing

import "softrdma/internal/topology"

// A PortSet is a set of port numbers of a switch.
type PortSet [4]uint64

// Add adds a port.
func (p *PortSet) Add(port int) { p[port/64] |= 1 << (port % 64) }

// Remove removes a port.
func (p *PortSet) Remove(port int) { p[port/64] &^= 1 << (port % 64) }

// Has reports whether a port is in the set.
func (p *PortSet) Has(port int) bool { return p[port/64]>>(port%64)&1 != 0 }

// Mask is the part of the set that one position of a multicast table holds:
// ports 16*position to 16*position+15 (IBTA 14.2.5.12).
func (p *PortSet) Mask(position int) uint16 { return uint16(p[position/4] >> (position % 4 * 16)) }

// Multicast returns, by node, the ports of each switch that belong to a tree
// that joins all members, which are end ports. The tree has the shortest paths
// from the switch that is nearest to all members together. Members that no path
// joins with it are left out.
func Multicast(f *topology.Fabric, members []topology.End) []PortSet {
	sets := make([]PortSet, len(f.Nodes))
	g := newGraph(f)
	at := make([]int32, 0, len(members)) // each member's switch
	for _, m := range members {
		e := m
		if f.Nodes[m.Node].Kind != topology.Switch {
			e = f.Port(m).Peer
			if e.Port == 0 || g.number[e.Node] < 0 {
				continue
			}
		}
		sets[e.Node].Add(e.Port)
		at = append(at, int32(g.number[e.Node]))
	}
	if len(at) == 0 {
		return sets
	}
	d := make([]int32, len(g.nodes))
	g.distances(d, g.center(at))
	done := make([]bool, len(g.nodes))
	for _, s := range at {
		for !done[s] && d[s] != unreachable && d[s] > 0 {
			done[s] = true
			s = g.joinParent(int(s), d, sets)
		}
	}
	return sets
}

// joinParent adds the link from a switch to the next on its shortest path.
func (g *graph) joinParent(s int, d []int32, sets []PortSet) int32 {
	for _, n := range g.neighbors[s] {
		if d[n.to] == d[s]-1 {
			from := topology.End{Node: g.nodes[s], Port: int(n.ports[0])}
			sets[from.Node].Add(from.Port)
			peer := g.f.Port(from).Peer
			sets[peer.Node].Add(peer.Port)
			return n.to
		}
	}
	return int32(s)
}

// center is the switch with the least sum of distances to the members.
func (g *graph) center(members []int32) int32 {
	sum := make([]int64, len(g.nodes))
	d := make([]int32, len(g.nodes))
	count := make(map[int32]int64)
	for _, m := range members {
		count[m]++
	}
	for m, n := range count {
		g.distances(d, m)
		for s := range d {
			sum[s] += int64(d[s]) * n
		}
	}
	best := 0
	for s := range sum {
		if sum[s] < sum[best] {
			best = s
		}
	}
	return int32(best)
}
