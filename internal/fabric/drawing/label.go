package drawing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A label is a node on a terminal, with as much of its name as the row has room for.
type label struct {
	node int
	x, y int // of its first character
	text string
}

// labels chooses the texts of all nodes. In each row all switches have the name, or all have the
// end of it, or none, and so have the adapters, so that no text covers another one.
func (c *canvas) labels(g *graph, l *layout) (all []label) {
	rows := make(map[int][]int)
	for i := range g.nodes {
		_, y := c.cellOf(l, i)
		rows[y] = append(rows[y], i)
	}
	for y, nodes := range rows {
		slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(c.dot(l, l.at[a]).x, c.dot(l, l.at[b]).x) })
		all = append(all, c.row(g, l, y, nodes)...)
	}
	return all
}

// cellOf is the place of a node.
func (c *canvas) cellOf(l *layout, i int) (x, y int) {
	p := c.dot(l, l.at[i])
	return int(p.x) / 2, int(p.y) / 4
}

// row chooses the texts of a row.
func (c *canvas) row(g *graph, l *layout, y int, nodes []int) (list []label) {
	for _, form := range [][2]int{{whole, whole}, {whole, mark}, {end, whole}, {end, mark}, {mark, mark}} {
		list = list[:0]
		fits, from := true, 0
		for _, i := range nodes {
			kind := form[1]
			if g.isSwitch(i) {
				kind = form[0]
			}
			x, _ := c.cellOf(l, i)
			text := g.text(i, kind, l.tree)
			n := utf8.RuneCountInString(text)
			if g.isSwitch(i) {
				x -= n / 2
			}
			x = max(0, min(x, c.columns-n))
			fits = fits && x >= from
			from = x + n
			list = append(list, label{i, x, y, text})
		}
		if fits {
			if form[0] != whole {
				list = append(list, prefixLabel(g, y, list)...)
			}
			break
		}
	}
	return list
}

// The forms of a node's text.
const (
	whole = iota // the name
	end          // the name from its first digit on
	mark         // a mark only
)

func (g *graph) text(i, form int, tree bool) string {
	name := g.nodes[i].Name
	switch {
	case g.isSwitch(i) && form == mark:
		return "■"
	case g.isSwitch(i):
		if at := strings.IndexAny(name, "0123456789"); form == end && at >= 0 {
			name = strings.TrimSuffix(name[at:], "-*")
		}
		return "[" + name + "]"
	case g.isTrunk(i) && form == mark:
		return "○"
	case g.isTrunk(i):
		return "○" + name
	case form == mark || tree && !g.grouped:
		return "●"
	case g.grouped && g.count[i] > 1:
		return fmt.Sprintf("●×%d", g.count[i])
	}
	return "●" + name
}

// prefixLabel names at the left of a row what the names of its switches begin with.
func prefixLabel(g *graph, y int, list []label) []label {
	common := ""
	for _, x := range list {
		if !g.isSwitch(x.node) {
			continue
		}
		name := g.nodes[x.node].Name
		prefix := name[:max(0, strings.IndexAny(name, "0123456789"))]
		if common != "" && prefix != common {
			return nil
		}
		common = prefix
	}
	common = strings.TrimRight(common, "-")
	if common == "" || utf8.RuneCountInString(common) > list[0].x {
		return nil
	}
	return []label{{-1, 0, y, common}}
}

// label draws a label over the lines.
func (c *canvas) label(g *graph, x *label) {
	color, level := plain, 8
	switch {
	case x.node < 0:
	case g.nodes[x.node].Active == 0:
		color = gray
	case g.isSwitch(x.node):
		color, level = bold, 9
	}
	for k, r := range []rune(x.text) {
		if at := x.y*c.columns + x.x + k; x.x+k < c.columns && level > c.cells[at].level {
			c.cells[at] = cell{r, color, level}
		}
	}
}
