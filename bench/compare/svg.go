package compare

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The size of a plot, and of its margins, in pixels.
const (
	plotWidth, plotHeight  = 720, 400
	left, right, top, base = 70, 190, 40, 340
)

var colours = []string{"#0b6e99", "#c0392b", "#27864a", "#8e44ad", "#d35400", "#555555"}

// SVG draws the plot with equidistant ticks on the horizontal axis and values on the
// vertical axis.
func (p *Plot) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15">%s, %s</text>`, left, html.EscapeString(p.Title), html.EscapeString(p.Unit))
	a := p.axes()
	for _, t := range p.Ticks {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#eee"/>`, p.x(t.X), p.x(t.X), top, base)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, p.x(t.X), base+18, html.EscapeString(t.Name))
	}
	for _, v := range a.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#eee"/>`, left, plotWidth-right, a.y(v), a.y(v))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`, left-6, a.y(v)+4, v)
	}
	solid := -1
	for i, c := range p.Curves {
		dash := ` stroke-dasharray="6 4"`
		if !c.Dashed || solid < 0 {
			dash = ""
			solid++
		}
		colour := colours[solid%len(colours)]
		var points []string
		for _, q := range c.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(q.X), a.y(q.Value)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %.3g %s</title></circle>`,
				p.x(q.X), a.y(q.Value), colour, html.EscapeString(p.tick(q.X)), q.Value, html.EscapeString(p.Unit))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="%s"/>`, colour, dash, strings.Join(points, " "))
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`, plotWidth-right+12, top+12+20*i, colour, html.EscapeString(c.Name))
	}
	b.WriteString("</svg>")
	return b.String()
}

// axes converts values to vertical positions.
type axes struct {
	low, high float64 // of the values, or of their decimal logarithms
	log       bool
}

func (p *Plot) axes() axes {
	a := axes{low: math.Inf(1), high: math.Inf(-1), log: p.Log}
	for _, c := range p.Curves {
		for _, q := range c.Points {
			a.low, a.high = min(a.low, a.scale(q.Value)), max(a.high, a.scale(q.Value))
		}
	}
	switch {
	case a.low > a.high: // nothing to show
		return axes{0, 1, p.Log}
	case p.Log:
		return axes{math.Floor(a.low), math.Ceil(a.high + 1e-9), true}
	}
	return axes{0, a.high * 1.05, false}
}

func (a axes) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// x returns the horizontal position of a tick.
func (p *Plot) x(at float64) float64 {
	i := slices.IndexFunc(p.Ticks, func(t Tick) bool { return t.X == at })
	return left + float64(i)/float64(max(len(p.Ticks)-1, 1))*(plotWidth-right-left)
}

func (p *Plot) tick(at float64) string {
	i := slices.IndexFunc(p.Ticks, func(t Tick) bool { return t.X == at })
	return p.Ticks[i].Name
}

func (a axes) y(v float64) float64 { return base - (a.scale(v)-a.low)/(a.high-a.low)*(base-top) }

func (a axes) ticks() (t []float64) {
	if !a.log {
		for i := range 5 {
			t = append(t, a.high/5*float64(i+1))
		}
		return t
	}
	for e := a.low; e <= a.high; e++ {
		t = append(t, math.Pow(10, e))
	}
	return t
}
