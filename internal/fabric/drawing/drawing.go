// Package drawing draws a fabric, as SVG and on a terminal, with the load and the errors of
// each link. It chooses places by the shape of the fabric: levels for trees, a grid for tori
// and meshes, circles for groups and for the others. Fabrics with more nodes than the space can
// show are drawn by groups.
//
// It draws what package control answers, and asks nothing itself.
package drawing

import (
	"math"

	"softrdma/internal/fabric/control"
)

// A Picture is what is drawn.
type Picture struct {
	Title    string
	Nodes    []control.Node
	Links    []control.Link
	Deadlock []control.Channel // lanes that wait for each other, which are marked
	Still    []control.Lane    // that stand still, which are red
	Network  string            // control.InfiniBand if it is empty
	All      bool              // each node is drawn, however many there are
}

// A point is a place in units of the layout.
type point struct{ x, y float64 }

func (p point) add(q point) point                { return point{p.x + q.x, p.y + q.y} }
func (p point) scale(f float64) point            { return point{p.x * f, p.y * f} }
func (p point) towards(q point, t float64) point { return point{p.x + (q.x-p.x)*t, p.y + (q.y-p.y)*t} }
func (p point) distance(q point) float64         { return math.Hypot(p.x-q.x, p.y-q.y) }

// polar is the point at a distance from the origin, in a direction counted clockwise from
// the top.
func polar(radius, turn float64) point {
	return point{radius * math.Sin(2*math.Pi*turn), -radius * math.Cos(2*math.Pi*turn)}
}

// An edge is a link between two nodes.
type edge struct {
	ends [2]int  // nodes
	bend float64 // how far the middle of the line is beside it
	link *control.Link
	all  []*control.Link // that the link stands for between groups
}

// A graph has the nodes and links of a picture by number.
type graph struct {
	nodes []control.Node
	edges []edge
	near  [][]int // switches beside each node, each once
	hosts [][]int // adapters of each switch
	home  []int   // the switch of each adapter, -1 without one

	grouped bool  // nodes are groups, see collapse
	count   []int // nodes of each group
}

func newGraph(p *Picture) *graph {
	g := &graph{nodes: p.Nodes[:len(p.Nodes):len(p.Nodes)], near: make([][]int, len(p.Nodes)), hosts: make([][]int, len(p.Nodes)), home: make([]int, len(p.Nodes))}
	number := make(map[string]int, len(p.Nodes))
	for i := range p.Nodes {
		number[p.Nodes[i].Name] = i
		g.home[i] = -1
	}
	joined := make(map[[2]int]bool)
	for i := range p.Links {
		l := &p.Links[i]
		a, okA := number[l.Ends[0].Node]
		b, okB := number[l.Ends[1].Node]
		if !okA || !okB || isTrunk(l) {
			continue
		}
		g.edges = append(g.edges, edge{ends: [2]int{a, b}, link: l})
		for _, e := range [][2]int{{a, b}, {b, a}} {
			if !joined[e] {
				joined[e] = true
				g.join(e[0], e[1])
			}
		}
	}
	g.addTrunks(p.Links, number)
	return g
}

// join enters that a node has another one beside it.
func (g *graph) join(at, to int) {
	switch {
	case g.isSwitch(at) && g.isSwitch(to):
		g.near[at] = append(g.near[at], to)
	case g.isSwitch(to) && g.home[at] < 0:
		g.home[at] = to
		g.hosts[to] = append(g.hosts[to], at)
	}
}

func (g *graph) isSwitch(i int) bool { return g.nodes[i].Kind == "switch" }

func (g *graph) switches() (list []int) {
	for i := range g.nodes {
		if g.isSwitch(i) {
			list = append(list, i)
		}
	}
	return list
}

// separate bends links that would lie on one another: parallel ones.
func (g *graph) separate() {
	count := make(map[[2]int]int)
	for i := range g.edges {
		e := &g.edges[i]
		key := [2]int{min(e.ends[0], e.ends[1]), max(e.ends[0], e.ends[1])}
		n := count[key]
		count[key]++
		if n > 0 { // to either side in turn
			side := float64((n + 1) / 2)
			if n%2 == 0 {
				side = -side
			}
			if e.ends[0] > e.ends[1] {
				side = -side
			}
			e.bend += 0.12 * side
		}
	}
}
