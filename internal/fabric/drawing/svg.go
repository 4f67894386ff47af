package drawing

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"softrdma/internal/fabric/control"
)

// Sizes in pixels.
const (
	unit       = 76.0
	margin     = 56.0
	headRoom   = 46.0
	footRoom   = 40.0
	lineRoom   = 16.0 // of a line of text
	leastWidth = 790.0
)

// Limits from which on details are left out.
const (
	manyNodes  = 160 // groups instead of nodes
	manyJoined = 64  // links between groups
	manyLinks  = 160 // no figures on the links
)

// Colors.
const (
	colorIdle  = "#a3adb8"
	colorDown  = "#c0262c"
	colorWait  = "#c98a00" // a link that no manager has set up
	colorError = "#c0262c"
	colorFault = "#8a3ffc"
)

// An svg is a drawing in the making.
type svg struct {
	bytes.Buffer
	g      *graph
	l      *layout
	offset point
	dead   map[control.Channel]bool
	still  standing
}

// SVG returns the picture as an SVG document.
func SVG(p *Picture) []byte {
	g := newGraph(p)
	title := p.Title
	if len(g.nodes) > manyNodes && !p.All {
		g = g.group(manyJoined)
		title += groupedTitle
	}
	d := &svg{g: g, l: g.place(), dead: make(map[control.Channel]bool), still: newStanding(p)}
	for _, c := range p.Deadlock {
		c.VL = 0
		d.dead[c] = true
	}
	lines := p.waits()
	side, height := margin, d.l.height*unit+2*margin+headRoom+footRoom+lineRoom*float64(len(lines))
	if d.l.tree { // the names of adapters are upright
		height += d.g.longestName()
	} else {
		side = max(side, d.g.longestName())
	}
	width := max(leastWidth, d.l.width*unit+2*side, 32+8.2*float64(utf8.RuneCountInString(title)))
	if len(d.still) > 0 { // the legend has one more item
		width = max(width, leastWidth+120)
	}
	for _, text := range lines {
		width = max(width, 32+6.6*float64(utf8.RuneCountInString(text)))
	}
	d.offset = point{(width - d.l.width*unit) / 2, margin + headRoom}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="DejaVu Sans, Verdana, sans-serif">`+"\n",
		width, height, width, height)
	fmt.Fprintf(d, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="16" y="28" font-size="16" fill="#1f2933">%s</text>`+"\n", html.EscapeString(title))
	for i := range g.edges {
		d.edge(&g.edges[i])
	}
	for i := range g.nodes {
		d.node(i)
	}
	if len(g.edges) <= manyLinks {
		for i := range g.edges {
			d.figures(&g.edges[i])
		}
	}
	for i := range g.edges {
		d.trouble(&g.edges[i])
	}
	for i, text := range lines {
		fmt.Fprintf(d, `<text x="16" y="%.0f" font-size="11" fill="%s">%s</text>`+"\n", height-footRoom-lineRoom*float64(len(lines)-1-i), colorDown, html.EscapeString(text))
	}
	d.legend(height - 18)
	d.WriteString("</svg>\n")
	return d.Bytes()
}

func (d *svg) at(i int) point { return d.offset.add(d.l.at[i].scale(unit)) }

// curve returns the ends of a link and the control point of its line.
func (d *svg) curve(e *edge) (a, c, b point) {
	a, b = d.at(e.ends[0]), d.at(e.ends[1])
	return a, controlPoint(a, b, e.bend), b
}

// controlPoint is the control point of a line that is bent.
func controlPoint(a, b point, bend float64) point {
	m := a.towards(b, 0.5)
	return point{m.x - (b.y-a.y)*2*bend, m.y + (b.x-a.x)*2*bend}
}

// on is a point of a quadratic curve.
func on(a, c, b point, t float64) point { return a.towards(c, t).towards(c.towards(b, t), t) }

// edge draws a link: each half has the color of the load that the end beside it sends.
func (d *svg) edge(e *edge) {
	a, c, b := d.curve(e)
	m := on(a, c, b, 0.5)
	fmt.Fprintf(d, "<g><title>%s</title>", html.EscapeString(d.describe(e)))
	if e.link.State != control.LinkActive {
		color, dash := colorDown, "4 5"
		if e.link.State == control.LinkInit || e.link.State == control.LinkArmed {
			color, dash = colorWait, "8 4"
		}
		fmt.Fprintf(d, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="%s" stroke-width="1.6" stroke-dasharray="%s"/>`, a.x, a.y, c.x, c.y, b.x, b.y, color, dash)
		if color == colorDown {
			fmt.Fprintf(d, `<path d="M%.1f %.1fl8 8m0 -8l-8 8" stroke="%s" stroke-width="2.4"/>`, m.x-4, m.y-4, color)
		}
		d.WriteString("</g>\n")
		return
	}
	d.half(e, 0, a, a.towards(c, 0.5), m)
	d.half(e, 1, b, b.towards(c, 0.5), m)
	if e.link.Faults != nil {
		fmt.Fprintf(d, `<path d="M%.1f %.1fl5 -7l3 6l5 -7" fill="none" stroke="%s" stroke-width="2.2"/>`, m.x-6, m.y+4, colorFault)
	}
	d.WriteString("</g>\n")
}

// half draws the part of a link beside one of its ends, which is at a.
func (d *svg) half(e *edge, k int, a, c, m point) {
	end := &e.link.Ends[k]
	color, width := loadColor(end.Load), 1.4+4*math.Sqrt(min(1, end.Load))
	if d.still.half(e, k) {
		color, width = colorDown, 4
	}
	if d.isDead(end) || slices.ContainsFunc(e.all, func(l *control.Link) bool { return d.isDead(&l.Ends[0]) || d.isDead(&l.Ends[1]) }) {
		color, width = colorDown, 6
	}
	fmt.Fprintf(d, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="%s" stroke-width="%.1f" stroke-linecap="round"/>`, a.x, a.y, c.x, c.y, m.x, m.y, color, width)
}

// isDead reports whether a lane of a port waits in a circle.
func (d *svg) isDead(end *control.LinkEnd) bool {
	return d.dead[control.Channel{Node: end.Node, Port: end.Port}]
}

// loadColor goes from green over amber to red.
func loadColor(load float64) string {
	if load < 0.001 {
		return colorIdle
	}
	stops := [...][3]float64{{46, 160, 67}, {219, 171, 10}, {207, 64, 24}}
	t := min(1, max(0, load)) * 2
	i := min(1, int(t))
	t -= float64(i)
	var rgb [3]int
	for k := range rgb {
		rgb[k] = int(stops[i][k] + (stops[i+1][k]-stops[i][k])*t)
	}
	return fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
}

// figures writes the loads beside the ends that send.
func (d *svg) figures(e *edge) {
	a, c, b := d.curve(e)
	for k := range e.link.Ends {
		if load := e.link.Ends[k].Load; load >= 0.005 {
			p := d.clear(e.ends[k], a, c, b)
			fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="10" text-anchor="middle" fill="#1f2933" stroke="#ffffff" stroke-width="3" paint-order="stroke">%.0f%%</text>`+"\n", p.x, p.y+3.5, 100*load)
		}
		a, b = b, a
	}
}

// trouble marks the ends with errors or discards.
func (d *svg) trouble(e *edge) {
	a, c, b := d.curve(e)
	for k := range e.link.Ends {
		if end := &e.link.Ends[k]; end.Errors+end.Discards > 0 {
			p := on(a, c, b, min(0.4, 24/max(1, a.distance(b))))
			fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="5.5" fill="%s"/><text x="%.1f" y="%.1f" font-size="9" font-weight="bold" fill="#fff" text-anchor="middle">!</text>`+"\n",
				p.x, p.y, colorError, p.x, p.y+3.2)
		}
		a, b = b, a
	}
}

// clear is a point of the half of a curve beside a node, which does not lie on its name.
func (d *svg) clear(i int, a, c, b point) (p point) {
	half := nameWidth(&d.g.nodes[i]) / 2
	for t := 0.28; t < 0.48; t += 0.02 {
		p = on(a, c, b, t)
		if math.Abs(p.x-a.x) > half+16 || math.Abs(p.y-a.y) > 20 {
			break
		}
	}
	return p
}

// longestName is the length of the longest name of an adapter or a trunk.
func (g *graph) longestName() (length float64) {
	for i := range g.nodes {
		if !g.isSwitch(i) {
			length = max(length, nameWidth(&g.nodes[i]))
		}
	}
	return length
}

func nameWidth(n *control.Node) float64 { return 7*float64(utf8.RuneCountInString(n.Name)) + 12 }

// node draws a switch or an adapter with its name.
func (d *svg) node(i int) {
	n, p := &d.g.nodes[i], d.at(i)
	if d.g.isTrunk(i) {
		fmt.Fprintf(d, `<g><title>trunk to %s</title><circle cx="%.1f" cy="%.1f" r="5" fill="#ffffff" stroke="%s" stroke-width="2"/>`,
			html.EscapeString(n.Name), p.x, p.y, nodeColor(n, "#28323d"))
		fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="10" fill="#1f2933">%s</text></g>`+"\n", p.x+9, p.y+3.5, html.EscapeString(n.Name))
		return
	}
	address := fmt.Sprintf("GUID 0x%016x, LID %s", n.GUID, lids(n.LIDs))
	if n.MAC != "" {
		address = strings.TrimSpace(n.MAC + " " + n.IP)
	}
	fmt.Fprintf(d, "<g><title>%s, %s, %d of %d ports active</title>", html.EscapeString(n.Kind+" "+n.Name), address, n.Active, n.Ports)
	switch {
	case !d.g.isSwitch(i):
		fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="5" fill="%s" stroke="#ffffff"/>`, p.x, p.y, nodeColor(n, "#2f6fbf"))
		d.adapterName(i, p)
	default:
		w := nameWidth(n)
		fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="20" rx="4" fill="%s"/><text x="%.1f" y="%.1f" font-size="11" fill="#ffffff" text-anchor="middle">%s</text>`,
			p.x-w/2, p.y-10, w, nodeColor(n, "#28323d"), p.x, p.y+4, html.EscapeString(n.Name))
	}
	d.WriteString("</g>\n")
}

// adapterName writes the name on the side that is away from the switch.
func (d *svg) adapterName(i int, p point) {
	away := point{0, 1}
	if home := d.g.home[i]; home >= 0 {
		if q := d.at(home); q.distance(p) > 0 {
			away = point{(p.x - q.x) / q.distance(p), (p.y - q.y) / q.distance(p)}
		}
	}
	anchor, turn := "middle", 0.0
	at := p.add(away.scale(11))
	switch {
	case d.l.tree: // in a row
		anchor, turn = "start", 90
		at = p.add(point{-3.5, 9})
	case away.x > 0.4:
		anchor = "start"
		at.y += 3.5
	case away.x < -0.4:
		anchor = "end"
		at.y += 3.5
	case away.y > 0:
		at.y += 7
	}
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="10" fill="#1f2933" text-anchor="%s"`, at.x, at.y, anchor)
	if turn != 0 {
		fmt.Fprintf(d, ` transform="rotate(%.0f %.1f %.1f)"`, turn, at.x, at.y)
	}
	fmt.Fprintf(d, `>%s</text>`, html.EscapeString(d.g.nodes[i].Name))
}

// nodeColor is that of a node that all links lead to, or gray.
func nodeColor(n *control.Node, color string) string {
	if n.Active == 0 {
		return "#98a2ad"
	}
	return color
}

func (d *svg) legend(y float64) {
	x := 16.0
	item := func(mark, text string) {
		fmt.Fprintf(d, `<g transform="translate(%.0f %.0f)" font-size="10" fill="#1f2933">%s<text x="30" y="3.5">%s</text></g>`+"\n", x, y, mark, text)
		x += 42 + 6.2*float64(len(text))
	}
	line := func(color, dash string, width float64) string {
		return fmt.Sprintf(`<path d="M0 0h24" stroke="%s" stroke-width="%.1f" stroke-dasharray="%s"/>`, color, width, dash)
	}
	item(line(colorIdle, "", 1.4), "no load")
	item(line(loadColor(0.25), "", 3.4), "25 %")
	item(line(loadColor(1), "", 5.4), "100 %, sent by the nearer end")
	item(line(colorWait, "8 4", 1.6), "not set up")
	item(line(colorDown, "4 5", 1.6), "down or cut")
	if len(d.still) > 0 {
		item(line(colorDown, "", 4), "stands still")
	}
	if len(d.dead) > 0 {
		item(line(colorDown, "", 6), "deadlock")
	}
	item(fmt.Sprintf(`<circle cx="12" cy="0" r="5.5" fill="%s"/>`, colorError), "errors or discards")
}

func lids(list []uint16) string {
	var b strings.Builder
	for i, l := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, l)
	}
	return b.String()
}

// describe is the text of a line.
func (d *svg) describe(e *edge) string {
	if len(e.all) < 2 {
		l := e.link
		if len(e.all) == 1 {
			l = e.all[0]
		}
		return describe(l)
	}
	l := e.link
	active := 0
	for _, one := range e.all {
		if one.State == control.LinkActive {
			active++
		}
	}
	return fmt.Sprintf("%d links %s – %s: %d active; the busiest sends %.1f %% and %.1f %%; %d errors, %d discards", len(e.all), l.Ends[0].Name, l.Ends[1].Name,
		active, 100*l.Ends[0].Load, 100*l.Ends[1].Load, l.Ends[0].Errors+l.Ends[1].Errors, l.Ends[0].Discards+l.Ends[1].Discards)
}

// groupedTitle follows the title of a picture of groups.
const groupedTitle = " — by groups, each line for all links between two"

// describe is the text of a link.
func describe(l *control.Link) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s – %s: %s", l.Ends[0].Name, l.Ends[1].Name, l.State)
	if l.Speed != "" {
		fmt.Fprintf(&b, ", %s", strings.TrimSpace(l.Width+" "+l.Speed))
	}
	for k := range l.Ends {
		e := &l.Ends[k]
		if k == 1 && isTrunk(l) {
			continue // the other fabric counts there
		}
		fmt.Fprintf(&b, "; %s sends %.1f %%, %d errors, %d discards", e.Name, 100*e.Load, e.Errors, e.Discards)
	}
	if l.Faults != nil {
		fmt.Fprintf(&b, "; faults: %v", l.Faults)
	}
	return b.String()
}
