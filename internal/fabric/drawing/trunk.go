package drawing

import "softrdma/internal/fabric/control"

// trunkKind is the kind of the nodes that stand for the far ends of trunks. They are drawn beside
// the switches at which the trunks end.
const trunkKind = "trunk"

// isTrunk reports whether a link leads out of the fabric. Its far end has a name alone.
func isTrunk(l *control.Link) bool { return l.Ends[1].Port == 0 }

// addTrunks adds a node for the far end of each trunk.
func (g *graph) addTrunks(links []control.Link, number map[string]int) {
	for i := range links {
		l := &links[i]
		at, ok := number[l.Ends[0].Node]
		if !ok || !isTrunk(l) {
			continue
		}
		far := control.Node{Name: l.Ends[1].Node, Kind: trunkKind, Ports: 1}
		if l.State == control.LinkActive {
			far.Active = 1
		}
		g.edges = append(g.edges, edge{ends: [2]int{at, len(g.nodes)}, link: l})
		g.nodes = append(g.nodes, far)
		g.home = append(g.home, at)
		g.near, g.hosts = append(g.near, nil), append(g.hosts, nil)
	}
}

func (g *graph) isTrunk(i int) bool { return g.nodes[i].Kind == trunkKind }

// placeTrunks places the far ends of trunks above the nodes at which they end.
func (g *graph) placeTrunks(l *layout) {
	count := make(map[int]int)
	for i := range g.nodes {
		if g.isTrunk(i) {
			home := g.home[i]
			l.at[i] = l.at[home].add(point{0.45, -0.42 - 0.24*float64(count[home])})
			count[home]++
		}
	}
}
