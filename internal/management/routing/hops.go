package routing

import (
	"slices"

	"softrdma/internal/topology"
)

// Hops calls use for each switch with adapters and each other switch that reaches it, with all ports
// by which packets may leave there for it, in their order: those of shortest paths, or with upDown
// those of the shortest paths of UpDown. LIDs do not matter. The ports are valid during the call. The
// switches in also count as ones with adapters.
func Hops(f *topology.Fabric, upDown bool, also []int, use func(from, to int, ports []int)) {
	g := newGraph(f)
	var e engine = newMinHop(g)
	if upDown {
		u := newRanks(g)
		u.chooseRoots()
		e = u
	}
	var c []candidate
	var ports []int
	for to, node := range g.nodes {
		if !g.adapters[to] && !slices.Contains(also, node) {
			continue
		}
		e.target(to)
		for s, from := range g.nodes {
			if s == to {
				continue
			}
			c, ports = e.candidates(s, c[:0]), ports[:0]
			for _, k := range c {
				ports = append(ports, int(k.port))
			}
			if slices.Sort(ports); len(ports) > 0 {
				use(from, node, ports)
			}
		}
	}
}
