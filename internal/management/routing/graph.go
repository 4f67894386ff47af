package routing

import (
	"cmp"
	"slices"

	"softrdma/internal/topology"
)

// unreachable is a distance.
const unreachable = int32(1) << 30

// A graph has a fabric's switches, numbered in the order of their GUIDs, and
// the end ports at each.
type graph struct {
	f         *topology.Fabric
	nodes     []int        // node by switch number
	number    []int        // switch number by node, -1 for others
	neighbors [][]neighbor // by switch, ordered by number
	ends      [][]endPort  // by switch, ordered by port
	adapters  []bool       // by switch: whether it has some
	ports     [][]int32    // by switch and port: the switch behind it, or -1
	top       uint16       // the highest LID
}

// A neighbor is a switch behind one or more parallel links.
type neighbor struct {
	to    int32
	ports []uint8
}

// An endPort has LIDs: the switch's own port 0, or a port of an adapter.
type endPort struct {
	port  uint8 // of the switch, 0 for itself
	lid   uint16
	count int // of LIDs
}

func newGraph(f *topology.Fabric) *graph {
	g := &graph{f: f, number: make([]int, len(f.Nodes))}
	for i := range f.Nodes {
		g.number[i] = -1
		if f.Nodes[i].Kind == topology.Switch {
			g.nodes = append(g.nodes, i)
		}
	}
	slices.SortFunc(g.nodes, func(a, b int) int { return cmp.Compare(f.Nodes[a].GUID, f.Nodes[b].GUID) })
	for s, node := range g.nodes {
		g.number[node] = s
	}
	g.neighbors = make([][]neighbor, len(g.nodes))
	g.ends = make([][]endPort, len(g.nodes))
	g.adapters = make([]bool, len(g.nodes))
	g.ports = make([][]int32, len(g.nodes))
	for s, node := range g.nodes {
		g.addSwitch(s, &f.Nodes[node])
	}
	return g
}

// addSwitch enters what is connected with a switch.
func (g *graph) addSwitch(s int, n *topology.Node) {
	g.ports[s] = make([]int32, len(n.Ports))
	g.ports[s][0] = -1
	g.addEnd(s, 0, &n.Ports[0])
	for p := 1; p < len(n.Ports); p++ {
		g.ports[s][p] = -1
		if !n.Ports[p].Connected() {
			continue
		}
		peer := n.Ports[p].Peer
		to := g.number[peer.Node]
		if to < 0 {
			g.adapters[s] = true
			g.addEnd(s, p, g.f.Port(peer))
			continue
		}
		if to == s {
			continue // a cable between two ports of one switch leads nowhere
		}
		g.ports[s][p] = int32(to)
		i, found := slices.BinarySearchFunc(g.neighbors[s], int32(to), func(n neighbor, to int32) int { return cmp.Compare(n.to, to) })
		if !found {
			g.neighbors[s] = slices.Insert(g.neighbors[s], i, neighbor{to: int32(to)})
		}
		g.neighbors[s][i].ports = append(g.neighbors[s][i].ports, uint8(p))
	}
}

func (g *graph) addEnd(s, port int, p *topology.Port) {
	if p.LID == 0 {
		return
	}
	e := endPort{uint8(port), p.LID, 1 << p.LMC}
	g.ends[s] = append(g.ends[s], e)
	g.top = max(g.top, e.lid+uint16(e.count)-1)
}

// distances writes the number of links between each switch and the nearest
// source into d, and returns the switches in the order of their distance.
func (g *graph) distances(d []int32, sources ...int32) []int32 {
	for i := range d {
		d[i] = unreachable
	}
	queue := make([]int32, 0, len(d))
	for _, s := range sources {
		d[s] = 0
		queue = append(queue, s)
	}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for _, n := range g.neighbors[s] {
			if d[n.to] == unreachable {
				d[n.to] = d[s] + 1
				queue = append(queue, n.to)
			}
		}
	}
	return queue
}

// An engine says which neighbors lead to a switch, and how to choose among ports.
type engine interface {
	// target prepares the answers for one destination.
	target(to int)
	// candidates appends the ports by which packets may leave s.
	candidates(s int, c []candidate) []candidate
	// choose sets the ports for the LIDs of an end port: number is its position among all.
	choose(s int, c []candidate, e endPort, number int, lft []uint8)
}

// A candidate is a port that leads to the destination.
type candidate struct {
	port uint8
	via  int32 // the neighbor
}

// appendTo appends the ports that lead to a neighbor.
func (n *neighbor) appendTo(c []candidate) []candidate {
	for _, p := range n.ports {
		c = append(c, candidate{p, n.to})
	}
	return c
}

// route fills the tables, destination by destination.
func (g *graph) route(t *Tables, e engine) {
	var c []candidate
	number := 0 // of end ports of adapters, in the order of switches and ports
	for to := range g.nodes {
		e.target(to)
		for s, node := range g.nodes {
			if s == to {
				for _, end := range g.ends[to] {
					for i := range end.count {
						t.LFT[node][int(end.lid)+i] = end.port
					}
				}
				continue
			}
			c = e.candidates(s, c[:0])
			if len(c) == 0 {
				continue
			}
			n := number
			for _, end := range g.ends[to] {
				e.choose(s, c, end, n, t.LFT[node])
				if end.port != 0 {
					n++
				}
			}
		}
		for _, end := range g.ends[to] {
			if end.port != 0 {
				number++
			}
		}
	}
}
