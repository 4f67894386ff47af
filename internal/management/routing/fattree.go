package routing

import (
	"fmt"
	"slices"
)

// fatTree is up/down on the levels of a tree, with adapters at level 0. On its
// way up, a packet takes the port that its destination's number selects. All
// packets to one destination therefore meet at one root, and no two
// destinations of a shift permutation share a link.
type fatTree struct {
	*upDown
	level   []int32
	divisor []int // by level: the product of the ports up of all levels below
}

// newFatTree fails if a link joins switches whose levels are not neighbors.
func newFatTree(g *graph) (*fatTree, error) {
	t := &fatTree{upDown: newRanks(g), level: make([]int32, len(g.nodes))}
	var leaves []int32
	for s := range g.nodes {
		if g.adapters[s] {
			leaves = append(leaves, int32(s))
		}
	}
	if len(leaves) == 0 {
		return nil, fmt.Errorf("ftree: expected adapters; found none")
	}
	g.distances(t.level, leaves...)
	height := int32(0)
	for s := range g.nodes {
		if t.level[s] != unreachable {
			height = max(height, t.level[s])
		}
		for _, n := range g.neighbors[s] {
			if t.level[n.to] == t.level[s] {
				return nil, fmt.Errorf("ftree: expected links between levels; found %s and %s linked on level %d",
					g.f.Nodes[g.nodes[s]].Description, g.f.Nodes[g.nodes[n.to]].Description, t.level[s])
			}
		}
	}
	for s, l := range t.level {
		t.rank[s] = height - min(l, height)
	}
	t.setOrder()
	if !t.connects() {
		return nil, fmt.Errorf("ftree: expected a tree that joins all adapters by paths up and down; found some that need others")
	}
	t.divisor = slices.Repeat([]int{1}, int(height)+1)
	for l := range height {
		t.divisor[l+1] = t.divisor[l] * max(1, t.portsUp(l))
	}
	return t, nil
}

// portsUp is the greatest number of ports that lead up from a switch of a level.
func (t *fatTree) portsUp(level int32) (most int) {
	for s, l := range t.level {
		if l != level {
			continue
		}
		ports := 0
		for _, n := range t.neighbors[s] {
			if t.up(int32(s), n.to) {
				ports += len(n.ports)
			}
		}
		most = max(most, ports)
	}
	return most
}

// choose takes the port that the destination's number selects; each further
// LID of the port takes the next.
func (t *fatTree) choose(s int, c []candidate, e endPort, number int, lft []uint8) {
	divisor := 1
	if t.down[s] == unreachable {
		divisor = t.divisor[min(int(t.level[s]), len(t.divisor)-1)]
	}
	for i := range e.count {
		lft[int(e.lid)+i] = c[(number+i)/divisor%len(c)].port
	}
}
