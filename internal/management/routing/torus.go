package routing

import (
	"fmt"

	"softrdma/internal/topology"
)

// torusDimensions is how many dimensions the 16 service levels can express.
const torusDimensions = 4

// A torus is a grid of switches, which know their coordinates from their names
// (topology.Coordinates). A missing link makes a line of its ring; packets then
// go the other way round.
//
// Bit d of a packet's service level says that its path crosses the dateline of
// dimension d: the link between the last and the first point of a ring. On
// all links of dimension d the packet uses lane 1 then, lane 0 otherwise. A path
// has at most half a ring, so neither lane's dependencies close the ring; and
// the dimensions' order admits no cycle through several.
type torus struct {
	*graph
	balancer
	to    int // the destination
	size  []int
	at    [][]int      // coordinates by switch
	steps [][][2]int32 // by switch and dimension: the next switch backwards and forwards, or -1
	lines [][]int8     // by switch and port: the dimension, or -1
}

func newTorus(g *graph) (*torus, error) {
	r := &torus{graph: g, balancer: newBalancer(g)}
	if err := r.place(); err != nil {
		return nil, err
	}
	if err := r.join(); err != nil {
		return nil, err
	}
	for s := range g.nodes {
		for to := range g.nodes {
			if _, _, ok := r.next(s, to); !ok && s != to {
				return nil, fmt.Errorf("torus: expected a path in dimension order from %s to %s; found a missing link or switch",
					g.f.Nodes[g.nodes[s]].Description, g.f.Nodes[g.nodes[to]].Description)
			}
		}
	}
	return r, nil
}

func (r *torus) target(to int) { r.to = to }

func (r *torus) candidates(s int, c []candidate) []candidate {
	next, _, _ := r.next(s, r.to)
	for _, n := range r.neighbors[s] {
		if n.to == next {
			c = n.appendTo(c)
		}
	}
	return c
}

func (r *torus) choose(s int, c []candidate, e endPort, _ int, lft []uint8) {
	r.balancer.choose(s, c, e, lft)
}

// place reads the coordinates of all switches.
func (r *torus) place() error {
	taken := make(map[[torusDimensions]int]string)
	for _, node := range r.nodes {
		name := r.f.Nodes[node].Description
		c, ok := topology.Coordinates(name)
		if !ok || len(c) > torusDimensions || r.size != nil && len(c) != len(r.size) {
			return fmt.Errorf("torus: expected switches named by up to %d coordinates, like switch-0-1-2; found %q", torusDimensions, name)
		}
		if r.size == nil {
			r.size = make([]int, len(c))
		}
		var key [torusDimensions]int
		copy(key[:], c)
		if other, ok := taken[key]; ok {
			return fmt.Errorf("torus: expected one switch at each point; found %q and %q at %v", other, name, c)
		}
		taken[key] = name
		r.at = append(r.at, c)
		for d, v := range c {
			r.size[d] = max(r.size[d], v+1)
		}
	}
	return nil
}

// join finds each switch's neighbors in each dimension.
func (r *torus) join() error {
	r.steps = make([][][2]int32, len(r.nodes))
	r.lines = make([][]int8, len(r.nodes))
	for s := range r.nodes {
		r.steps[s] = make([][2]int32, len(r.size))
		for d := range r.steps[s] {
			r.steps[s][d] = [2]int32{-1, -1}
		}
		r.lines[s] = make([]int8, len(r.graph.ports[s]))
		for p := range r.lines[s] {
			r.lines[s][p] = -1
		}
		for _, n := range r.neighbors[s] {
			d, forwards, ok := r.direction(s, int(n.to))
			if !ok {
				return fmt.Errorf("torus: expected links between neighboring points; found %s linked with %s",
					r.f.Nodes[r.nodes[s]].Description, r.f.Nodes[r.nodes[n.to]].Description)
			}
			r.steps[s][d][forwards] = n.to
			for _, p := range n.ports {
				r.lines[s][p] = int8(d)
			}
		}
	}
	return nil
}

// direction says in which dimension b is beside a, and whether forwards (1).
func (r *torus) direction(a, b int) (dimension, forwards int, ok bool) {
	differing := 0
	for d, size := range r.size {
		if r.at[a][d] == r.at[b][d] {
			continue
		}
		differing++
		dimension = d
		switch n := (r.at[b][d] - r.at[a][d] + size) % size; {
		case size == 2:
			forwards, ok = r.at[b][d], true
		case n == 1:
			forwards, ok = 1, true
		case n == size-1:
			forwards, ok = 0, true
		default:
			ok = false
		}
	}
	return dimension, forwards, ok && differing == 1
}

// next is the switch that follows s on the path to another, in the first
// dimension in which the two differ. crosses reports whether the path in this
// dimension crosses the dateline from here on.
func (r *torus) next(s, to int) (next int32, crosses, ok bool) {
	for d, size := range r.size {
		n := (r.at[to][d] - r.at[s][d] + size) % size
		if n == 0 {
			continue
		}
		first := 1
		if 2*n > size || 2*n == size && r.at[to][d]%2 == 1 { // both ways are equal: balance them
			first = 0
		}
		for _, forwards := range []int{first, 1 - first} {
			if crosses, ok := r.walk(s, d, forwards, r.at[to][d]); ok {
				return r.steps[s][d][forwards], crosses, true
			}
		}
		return 0, false, false
	}
	return 0, false, false
}

// walk follows a ring to a coordinate, and reports whether the way crosses the
// dateline and whether all its links are there.
func (r *torus) walk(s, d, forwards, coordinate int) (crosses, ok bool) {
	for range r.size[d] {
		n := r.steps[s][d][forwards]
		if n < 0 {
			return false, false
		}
		if delta := r.at[n][d] - r.at[s][d]; delta != 1 && delta != -1 {
			crosses = true
		}
		s = int(n)
		if r.at[s][d] == coordinate {
			return crosses, true
		}
	}
	return false, false
}

// serviceLevels returns the function of Tables.SL.
func (r *torus) serviceLevels() func(from, to uint16) uint8 {
	at := make([]int32, int(r.top)+1) // switch by LID
	for i := range at {
		at[i] = -1
	}
	for s := range r.nodes {
		for _, e := range r.ends[s] {
			for i := range e.count {
				at[int(e.lid)+i] = int32(s)
			}
		}
	}
	return func(from, to uint16) (sl uint8) {
		if int(from) >= len(at) || int(to) >= len(at) || at[from] < 0 || at[to] < 0 {
			return 0
		}
		s, target := int(at[from]), int(at[to])
		for d := range r.size {
			for first := true; r.at[s][d] != r.at[target][d]; first = false {
				next, crosses, ok := r.next(s, target)
				if !ok {
					return 0
				}
				if first && crosses {
					sl |= 1 << d
				}
				s = int(next)
			}
		}
		return sl
	}
}

// lane is the function of Tables.Lane.
func (r *torus) lane(node, _, out int, sl uint8) uint8 {
	s := r.number[node]
	if s < 0 || out >= len(r.lines[s]) || r.lines[s][out] < 0 {
		return 0
	}
	return sl >> r.lines[s][out] & 1
}
