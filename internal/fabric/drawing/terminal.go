package drawing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"softrdma/internal/fabric/control"
)

// Fabrics with more switches are drawn by groups on a terminal: rows of a tree have room for more
// than circles, and a grid for yet more.
const (
	manyOnCircle = 16
	manyInTree   = 36
	manyInGrid   = 128
	manyAround   = 64 // nodes
	manyLines    = 24 // between groups
)

// A cell is one character of a terminal.
type cell struct {
	r     rune
	color string // escape sequence, "" for none
	level int    // what is drawn later replaces what has no higher level
}

// A canvas is the characters of a picture. Lines are drawn with the dots of Braille patterns,
// 2 by 4 for each character.
type canvas struct {
	cells         []cell
	columns, rows int
	still         standing
}

// Terminal returns the picture as lines of a number of columns, with escape sequences for
// colors if color is set. The busiest links and those with errors follow as text.
func Terminal(p *Picture, columns int, color bool) string {
	g, title := newGraph(p), p.Title
	l := g.place()
	n, circle := len(g.switches()), !l.grid && !l.tree
	if !p.All && (n > manyInGrid || n > manyInTree && !l.grid || circle && (n > manyOnCircle || len(g.nodes) > manyAround)) {
		g, title = g.group(manyLines), title+groupedTitle
		l = g.place()
	}
	c := newCanvas(l, columns)
	c.still = newStanding(p)
	for i := range g.edges {
		c.edge(g, l, &g.edges[i])
	}
	labels := c.labels(g, l)
	for i := range labels {
		c.label(g, &labels[i])
	}
	var b strings.Builder
	if utf8.RuneCountInString(title) > columns {
		title = strings.Replace(title, groupedTitle, "\n"+strings.TrimPrefix(groupedTitle, " — "), 1)
	}
	fmt.Fprintf(&b, "%s\n\n", title)
	c.write(&b, color)
	writeNotes(&b, p)
	return b.String()
}

const (
	sideRoom = 8 // columns for half a name
	leastRow = 5
	mostRows = 30
)

func newCanvas(l *layout, columns int) *canvas {
	columns = max(columns, 4*sideRoom)
	rows := leastRow
	if l.height > 0 {
		// A character is about twice as high as wide.
		rows = int(math.Round(l.height / max(l.width, 1) * float64(columns-2*sideRoom) / 2))
		rows = min(mostRows, max(leastRow, rows, int(3*l.height))) + 1
	}
	c := &canvas{columns: columns, rows: rows + 1}
	c.cells = make([]cell, c.columns*c.rows)
	return c
}

// dot returns the place of a node in Braille dots.
func (c *canvas) dot(l *layout, p point) point {
	x := float64(sideRoom) + p.x/max(l.width, 1e-9)*float64(c.columns-2*sideRoom-1)
	y := p.y / max(l.height, 1e-9) * float64(c.rows-2)
	if l.width == 0 {
		x = float64(c.columns) / 2
	}
	return point{2*x + 1, 4*y + 2}
}

// braille are the bits of the dots of a pattern, by column and row.
var braille = [2][4]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

func (c *canvas) set(x, y int, color string, level int) {
	if x < 0 || y < 0 || x/2 >= c.columns || y/4 >= c.rows {
		return
	}
	k := &c.cells[y/4*c.columns+x/2]
	if k.r == 0 {
		k.r = 0x2800
	}
	k.r |= braille[x%2][y%4]
	if level >= k.level {
		k.color, k.level = color, level
	}
}

// edge draws a link: each half has the color of the load that the end beside it sends. Links
// that are down are dotted.
func (c *canvas) edge(g *graph, l *layout, e *edge) {
	a, b := c.dot(l, l.at[e.ends[0]]), c.dot(l, l.at[e.ends[1]])
	bend := controlPoint(a, b, e.bend)
	n := int(2*a.distance(b)) + 1
	for i := range n + 1 {
		t := float64(i) / float64(n)
		if e.link.State != control.LinkActive && i%12 > 3 {
			continue
		}
		p := on(a, bend, b, t)
		k := 0
		if t > 0.5 {
			k = 1
		}
		color, level := lineColor(e.link, k)
		if c.still.half(e, k) {
			color, level = bold+red, 6
		}
		c.set(int(p.x), int(p.y), color, level)
	}
}

// Escape sequences of colors.
const (
	plain  = "\x1b[0m"
	gray   = "\x1b[90m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	bold   = "\x1b[1m"
)

func lineColor(l *control.Link, k int) (color string, level int) {
	load := l.Ends[k].Load
	switch {
	case l.State != control.LinkActive:
		return red, 5
	case load >= 0.7:
		return red, 4
	case load >= 0.3:
		return yellow, 3
	case load >= 0.001:
		return green, 2
	}
	return gray, 1
}

func (c *canvas) write(b *strings.Builder, color bool) {
	for y := range c.rows {
		line := c.cells[y*c.columns : (y+1)*c.columns]
		end := len(line)
		for end > 0 && line[end-1].r == 0 {
			end--
		}
		now := ""
		for _, k := range line[:end] {
			if color && k.r != 0 && k.color != now {
				b.WriteString(plain + k.color)
				now = k.color
			}
			b.WriteRune(cmp.Or(k.r, ' '))
		}
		if now != "" {
			b.WriteString(plain)
		}
		b.WriteByte('\n')
	}
}

// maxNotes is how many links are listed below a picture.
const maxNotes = 8

// writeNotes lists the links that carry most, and those with errors or without a link.
func writeNotes(b *strings.Builder, p *Picture) {
	type note struct {
		weight float64
		text   string
	}
	var notes []note
	for i := range p.Links {
		l := &p.Links[i]
		if l.State != control.LinkActive {
			notes = append(notes, note{3, fmt.Sprintf("%s – %s: %s", l.Ends[0].Name, l.Ends[1].Name, l.State)})
			continue
		}
		for k := range l.Ends {
			e, peer := &l.Ends[k], &l.Ends[1-k]
			if e.Load >= 0.001 {
				notes = append(notes, note{e.Load, fmt.Sprintf("%s → %s: %.1f %% of %s", e.Name, peer.Name, 100*e.Load, strings.TrimSpace(l.Width+" "+l.Speed))})
			}
			if e.Errors+e.Discards > 0 {
				notes = append(notes, note{2, fmt.Sprintf("%s: %d errors, %d discards", e.Name, e.Errors, e.Discards)})
			}
		}
	}
	for _, text := range p.waits() {
		notes = append(notes, note{4, text})
	}
	slices.SortStableFunc(notes, func(a, b note) int { return cmp.Compare(b.weight, a.weight) })
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	for i, n := range notes {
		if i == maxNotes {
			fmt.Fprintf(b, "… and %d more\n", len(notes)-i)
			break
		}
		fmt.Fprintln(b, n.text)
	}
}
