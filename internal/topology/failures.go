package topology

import "math/rand/v2"

// leaveOut takes links between switches away, at random. What remains still joins all nodes that
// were joined: the links of a random spanning forest stay.
func (g *generator) leaveOut(count, seed int) {
	if g.err != nil || count == 0 {
		return
	}
	var links []End
	for i := range g.f.Nodes {
		for p := range g.f.Nodes[i].Ports {
			e := g.f.Nodes[i].Ports[p].Peer
			if e.Port != 0 && g.f.Nodes[i].Kind == Switch && g.f.Nodes[e.Node].Kind == Switch && i < e.Node {
				links = append(links, End{i, p})
			}
		}
	}
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	r.Shuffle(len(links), func(i, k int) { links[i], links[k] = links[k], links[i] })
	joined := make(forest, len(g.f.Nodes))
	var spare []End
	for _, e := range links {
		if !joined.join(e.Node, g.f.Port(e).Peer.Node) {
			spare = append(spare, e)
		}
	}
	if count > len(spare) {
		g.failf("expected failed= from 0 to %d, as the other links between switches are needed to reach all of them; found %d", len(spare), count)
		return
	}
	for _, e := range spare[:count] {
		g.f.Disconnect(e)
	}
}

// A forest is which nodes are joined: the number behind each one plus 1, 0 at a root.
type forest []int

func (f forest) root(n int) int {
	for f[n] != 0 {
		up := f[n] - 1
		if f[up] != 0 {
			f[n] = f[up] // halves the path
		}
		n = up
	}
	return n
}

// join joins two nodes, and reports whether they were not joined before.
func (f forest) join(a, b int) bool {
	if a, b = f.root(a), f.root(b); a == b {
		return false
	}
	f[a] = b + 1
	return true
}
