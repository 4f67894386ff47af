package drawing

import (
	"cmp"
	"math"
	"slices"

	"softrdma/internal/topology"
)

// A layout is the places of the nodes, from the origin on.
type layout struct {
	at            []point
	width, height float64
	tree          bool // adapters are in one row at the bottom
	grid          bool // switches are in rows and columns, on one layer
}

// place chooses a layout. A unit is the distance of two switches.
func (g *graph) place() *layout {
	l := &layout{at: make([]point, len(g.nodes))}
	switch {
	case g.placeTree(l), !g.grouped && (g.placeGrid(l) || g.placeGroups(l)):
	default:
		g.placeCircle(l)
	}
	g.placeTrunks(l)
	g.separate()
	g.fit(l)
	return l
}

// fit moves the nodes so that all coordinates are positive, and places those without a cable.
func (g *graph) fit(l *layout) {
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	var rest []int
	include := func(p point) {
		low, high = point{min(low.x, p.x), min(low.y, p.y)}, point{max(high.x, p.x), max(high.y, p.y)}
	}
	for i, p := range l.at {
		if !g.isSwitch(i) && g.home[i] < 0 {
			rest = append(rest, i)
			continue
		}
		include(p)
	}
	for i := range g.edges { // links that are bent leave the rectangle of the nodes
		e := &g.edges[i]
		a, b := l.at[e.ends[0]], l.at[e.ends[1]]
		if e.bend != 0 {
			include(on(a, controlPoint(a, b, e.bend), b, 0.5))
		}
	}
	if len(rest) == len(l.at) {
		low, high = point{}, point{}
	}
	for n, i := range rest {
		l.at[i] = point{low.x + float64(n), high.y + 1}
		high.x = max(high.x, l.at[i].x)
	}
	if len(rest) > 0 {
		high.y++
	}
	for i := range l.at {
		l.at[i] = l.at[i].add(low.scale(-1))
	}
	l.width, l.height = high.x-low.x, high.y-low.y
}

// hostSpace is the room for an adapter beside others.
const hostSpace = 0.32

// placeTree places switches on levels by their distance from adapters, if nearly all links join
// neighboring levels.
func (g *graph) placeTree(l *layout) bool {
	level, top := g.levels()
	if top < 2 {
		return false
	}
	rows := make([][]int, top+1)
	links, beside := 0, 0
	for _, s := range g.switches() {
		if level[s] == 0 {
			return false // no way to an adapter
		}
		rows[level[s]] = append(rows[level[s]], s)
		for _, n := range g.near[s] {
			links++
			if level[n] == level[s] {
				beside++
			}
		}
	}
	if beside > links/4 {
		return false
	}
	for i := range g.edges {
		if e := &g.edges[i]; g.isSwitch(e.ends[0]) && g.isSwitch(e.ends[1]) && level[e.ends[0]] == level[e.ends[1]] {
			e.bend = 0.2 // not through the switches between
		}
	}
	x, widest := 0.0, 0.0
	for _, s := range g.switches() {
		widest = max(widest, nameWidth(&g.nodes[s])/unit+0.1)
	}
	for _, s := range rows[1] {
		room := max(1, widest, hostSpace*float64(len(g.hosts[s])+1))
		l.at[s] = point{x + room/2, float64(top)}
		for i, h := range g.hosts[s] {
			l.at[h] = point{x + room/2 + hostSpace*(float64(i)-float64(len(g.hosts[s])-1)/2), float64(top) + 0.7}
		}
		x += room
	}
	for r := 2; r <= top; r++ {
		g.placeRow(l, rows[r], x, float64(top+1-r))
	}
	l.tree = true
	stretch := max(1.2, 0.12*x) // wide trees need steep links
	for i := range l.at {
		if g.isSwitch(i) {
			l.at[i].y *= stretch
		} else {
			l.at[i].y = float64(top)*stretch + 0.7
		}
	}
	return true
}

// placeRow spreads a level over the width, each switch near the middle of those below it.
func (g *graph) placeRow(l *layout, row []int, width, y float64) {
	middle := make(map[int]float64, len(row))
	for _, s := range row {
		n := 0
		for _, below := range g.near[s] {
			if l.at[below].y > y {
				middle[s] += l.at[below].x
				n++
			}
		}
		middle[s] /= float64(max(1, n))
	}
	slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
	for i, s := range row {
		l.at[s] = point{width * (float64(i) + 0.5) / float64(len(row)), y}
	}
}

// levels returns the distance of each switch from the nearest adapter, 0 if it reaches none, and
// the greatest distance.
func (g *graph) levels() (level []int, top int) {
	level = make([]int, len(g.nodes))
	var queue []int
	for _, s := range g.switches() {
		if len(g.hosts[s]) > 0 {
			level[s], top = 1, 1
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, n := range g.near[s] {
			if level[n] == 0 {
				level[n] = level[s] + 1
				top = max(top, level[n])
				queue = append(queue, n)
			}
		}
	}
	return level, top
}

// placeGrid places switches whose names have two or three coordinates: layers of the third
// one are side by side.
func (g *graph) placeGrid(l *layout) bool {
	var size [3]int
	at := make(map[int][3]int)
	dims := 0
	for _, s := range g.switches() {
		c, ok := topology.Coordinates(g.nodes[s].Name)
		if !ok || len(c) < 2 || len(c) > 3 || dims != 0 && len(c) != dims {
			return false
		}
		dims = len(c)
		var place [3]int
		copy(place[3-dims:], c)
		at[s] = place
		for i := range place {
			size[i] = max(size[i], place[i]+1)
		}
	}
	if dims == 0 {
		return false
	}
	for s, c := range at {
		l.at[s] = point{float64(c[0]*(size[2]+1)+c[2]) * 2.1, float64(c[1]) * 1.5}
		if dims == 3 { // links between layers do not pass behind switches
			l.at[s] = l.at[s].add(point{0, 0.35 * float64(c[0])})
		}
		for i, h := range g.hosts[s] {
			l.at[h] = l.at[s].add(polar(0.55, 0.375+0.06*(float64(i)-float64(len(g.hosts[s])-1)/2)))
		}
	}
	l.grid = dims == 2
	for i := range g.edges {
		e := &g.edges[i]
		if g.isSwitch(e.ends[0]) && g.isSwitch(e.ends[1]) && steps(at[e.ends[0]], at[e.ends[1]]) > 1 {
			e.bend = 0.14
		}
	}
	return true
}

// steps is how far apart two points of a grid are in the dimension in which they differ.
func steps(a, b [3]int) (n int) {
	for i := range a {
		n = max(n, a[i]-b[i], b[i]-a[i])
	}
	return n
}

// placeCircle places switches on a circle and adapters outside of it. A single switch is in
// the middle.
func (g *graph) placeCircle(l *layout) {
	order := g.ringOrder()
	if len(order) == 1 {
		n := len(g.hosts[order[0]])
		radius := max(1.6, 0.55*float64(n)/(2*math.Pi))
		for i, h := range g.hosts[order[0]] {
			l.at[h] = polar(radius, float64(i)/float64(n))
		}
		return
	}
	room := 1.0
	for _, s := range order {
		room = max(room, hostSpace*float64(len(g.hosts[s])+1), (nameWidth(&g.nodes[s])+4)/unit)
	}
	radius := max(1.7, room*float64(len(order))/(2*math.Pi))
	outside := radius + 0.8
	for i, s := range order {
		turn := float64(i) / float64(len(order))
		l.at[s] = polar(radius, turn)
		for k, h := range g.hosts[s] {
			beside := hostSpace * (float64(k) - float64(len(g.hosts[s])-1)/2) / (2 * math.Pi * outside)
			l.at[h] = polar(outside, turn+1.2*beside)
		}
	}
}

// ringOrder returns the switches, in the order of a ring if they are one.
func (g *graph) ringOrder() []int {
	all := g.switches()
	for _, s := range all {
		if len(g.near[s]) != 2 {
			return all
		}
	}
	if len(all) == 0 {
		return nil
	}
	order := []int{all[0]}
	for at, from := g.near[all[0]][0], all[0]; at != all[0]; {
		order = append(order, at)
		next := g.near[at][0]
		if next == from {
			next = g.near[at][1]
		}
		at, from = next, at
	}
	if len(order) < len(all) { // several rings
		return all
	}
	return order
}
