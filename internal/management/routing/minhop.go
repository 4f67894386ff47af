package routing

// minHop takes every neighbor that is nearer to the destination.
type minHop struct {
	*graph
	balancer
	distance []int32
}

func newMinHop(g *graph) *minHop {
	return &minHop{graph: g, balancer: newBalancer(g), distance: make([]int32, len(g.nodes))}
}

func (m *minHop) target(to int) {
	m.distances(m.distance, int32(to))
}

func (m *minHop) candidates(s int, c []candidate) []candidate {
	if m.distance[s] == unreachable {
		return c
	}
	return m.nearer(s, m.distance, c)
}

// nearer appends the ports to neighbors whose distance is one less.
func (g *graph) nearer(s int, distance []int32, c []candidate) []candidate {
	for _, n := range g.neighbors[s] {
		if distance[n.to] == distance[s]-1 {
			c = n.appendTo(c)
		}
	}
	return c
}

func (m *minHop) choose(s int, c []candidate, e endPort, _ int, lft []uint8) {
	m.balancer.choose(s, c, e, lft)
}
