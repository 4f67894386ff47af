package routing

import (
	"cmp"
	"fmt"
	"slices"
)

// upDown gives every link a direction: up leads to the switch with the lower
// rank, or of equal ranks to the one with the lower GUID. Packets go up first
// and down afterwards; a switch from which the destination is below always
// sends down, because a table cannot tell where a packet comes from.
//
// Every two adapters are joined by such a path. To the management port of a
// switch without adapters there may be none, as between two roots, or behind a
// lost link. Packets there go to the nearest switch that has one, and are the
// only ones that may turn up again.
type upDown struct {
	*graph
	balancer
	rank  []int32
	order []int32 // switches, the topmost first
	down  []int32 // distance to the destination by links down only
	total []int32 // distance by links up and then down

	illegal []bool // switches whose path to the destination turns up again
}

func newUpDown(g *graph, roots []int) (*upDown, error) {
	u := newRanks(g)
	if len(roots) == 0 {
		u.chooseRoots()
		return u, nil
	}
	var top []int32
	for _, node := range roots {
		if node < 0 || node >= len(g.number) || g.number[node] < 0 {
			return nil, fmt.Errorf("expected switches as roots; found node %d", node)
		}
		top = append(top, int32(g.number[node]))
	}
	u.setRoots(top...)
	if !u.connects() {
		return nil, fmt.Errorf("expected roots that join all adapters by paths up and down; found %d that do not", len(roots))
	}
	return u, nil
}

func newRanks(g *graph) *upDown {
	n := len(g.nodes)
	return &upDown{graph: g, balancer: newBalancer(g), rank: make([]int32, n), down: make([]int32, n), total: make([]int32, n), illegal: make([]bool, n)}
}

// chooseRoots takes the switches farthest from all adapters: the top of a tree.
// If these do not join all adapters, it takes one root, the most central
// switch of each part of the fabric, which always does.
func (u *upDown) chooseRoots() {
	if len(u.nodes) == 0 {
		return
	}
	var leaves, top []int32
	for s := range u.nodes {
		if u.adapters[s] {
			leaves = append(leaves, int32(s))
		}
	}
	d := make([]int32, len(u.nodes))
	u.distances(d, leaves...)
	if height := slices.Max(d); height > 0 && height < unreachable {
		for s := range d {
			if d[s] == height {
				top = append(top, int32(s))
			}
		}
		u.setRoots(top...)
		if u.connects() {
			return
		}
	}
	u.setRoots(u.centers()...)
}

// centers returns the switch with the least distance to its farthest in each part of the fabric.
func (u *upDown) centers() (centers []int32) {
	d := make([]int32, len(u.nodes))
	best := make([]int32, len(u.nodes)) // by the lowest switch of a part: its center, and one more than that center's distance
	radius := make([]int32, len(u.nodes))
	for s := range u.nodes {
		reached := u.distances(d, int32(s))
		far := d[reached[len(reached)-1]] + 1
		part := slices.Min(reached)
		if radius[part] == 0 || far < radius[part] {
			best[part], radius[part] = int32(s), far
		}
	}
	for part, r := range radius {
		if r > 0 {
			centers = append(centers, best[part])
		}
	}
	return centers
}

// setRoots ranks the switches by their distance from the roots.
func (u *upDown) setRoots(roots ...int32) {
	u.distances(u.rank, roots...)
	u.setOrder()
}

func (u *upDown) setOrder() {
	u.order = u.order[:0]
	for s := range u.rank {
		u.order = append(u.order, int32(s))
	}
	slices.SortFunc(u.order, func(a, b int32) int { return cmp.Or(cmp.Compare(u.rank[a], u.rank[b]), cmp.Compare(a, b)) })
}

// up reports whether the link from a to b leads up.
func (u *upDown) up(a, b int32) bool {
	return u.rank[b] < u.rank[a] || u.rank[b] == u.rank[a] && b < a
}

// connects reports whether every switch with adapters reaches every other that
// it is connected with.
func (u *upDown) connects() bool {
	d := make([]int32, len(u.nodes))
	for to := range u.nodes {
		if !u.adapters[to] {
			continue
		}
		u.distances(d, int32(to))
		u.legal(to)
		for s := range u.nodes {
			if d[s] != unreachable && u.total[s] == unreachable && u.adapters[s] {
				return false
			}
		}
	}
	return true
}

// legal computes the distances by paths that go up and then down.
func (u *upDown) legal(to int) {
	for i := range u.down {
		u.down[i], u.total[i] = unreachable, unreachable
	}
	u.down[to] = 0
	queue := []int32{int32(to)}
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		for _, n := range u.neighbors[v] {
			if u.up(v, n.to) && u.down[n.to] == unreachable {
				u.down[n.to] = u.down[v] + 1
				queue = append(queue, n.to)
			}
		}
	}
	for _, s := range u.order { // every switch above s precedes it
		u.total[s] = u.down[s]
		if u.down[s] != unreachable {
			continue
		}
		for _, n := range u.neighbors[s] {
			if u.up(s, n.to) && u.total[n.to] != unreachable {
				u.total[s] = min(u.total[s], u.total[n.to]+1)
			}
		}
	}
}

func (u *upDown) target(to int) {
	u.legal(to)
	remain := false
	for s := range u.total {
		u.illegal[s] = u.total[s] == unreachable
		remain = remain || u.illegal[s]
	}
	for changed := remain; changed; { // join them to the nearest switch that has a path
		changed = false
		for s := range u.total {
			for _, n := range u.neighbors[s] {
				if u.illegal[s] && u.total[n.to]+1 < u.total[s] {
					u.total[s] = u.total[n.to] + 1
					changed = true
				}
			}
		}
	}
}

func (u *upDown) candidates(s int, c []candidate) []candidate {
	if u.total[s] == unreachable {
		return c
	}
	if u.illegal[s] {
		return u.nearer(s, u.total, c)
	}
	for _, n := range u.neighbors[s] {
		up := u.up(int32(s), n.to)
		switch {
		case u.down[s] != unreachable && !up && u.down[n.to] == u.down[s]-1,
			u.down[s] == unreachable && up && !u.illegal[n.to] && u.total[n.to] == u.total[s]-1:
			c = n.appendTo(c)
		}
	}
	return c
}

func (u *upDown) choose(s int, c []candidate, e endPort, _ int, lft []uint8) {
	u.balancer.choose(s, c, e, lft)
}
