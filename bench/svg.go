package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The size of a plot, and of its margins, in pixels.
const (
	plotWidth, plotHeight  = 720, 400
	left, right, top, base = 70, 190, 40, 340
)

var colours = []string{"#0b6e99", "#c0392b", "#27864a", "#8e44ad", "#d35400", "#555555"}

// SVG draws the plot: logarithmic message size to the right, value upwards.
func (p *Plot) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15">%s, %s</text>`, left, html.EscapeString(p.Title), html.EscapeString(p.Unit))
	a := p.axes()
	for _, n := range sweepSizes {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#eee"/>`, a.x(n), a.x(n), top, base)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, a.x(n), base+18, sizeName(n))
	}
	for _, v := range a.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#eee"/>`, left, plotWidth-right, a.y(v), a.y(v))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`, left-6, a.y(v)+4, v)
	}
	for i, c := range p.Curves {
		colour := colours[i%len(colours)]
		var points []string
		for _, q := range c.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(q.Bytes), a.y(q.Value)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %.3g %s</title></circle>`,
				a.x(q.Bytes), a.y(q.Value), colour, sizeName(q.Bytes), q.Value, html.EscapeString(p.Unit))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, colour, strings.Join(points, " "))
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`, plotWidth-right+12, top+12+20*i, colour, html.EscapeString(c.Name))
	}
	b.WriteString("</svg>")
	return b.String()
}

// axes turn sizes and values into places.
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

func (a axes) x(bytes int) float64 {
	first, last := math.Log2(float64(sweepSizes[0])), math.Log2(float64(sweepSizes[len(sweepSizes)-1]))
	return left + (math.Log2(float64(bytes))-first)/(last-first)*(plotWidth-right-left)
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

// WriteHTML writes tables and plots as one page that needs nothing else.
func WriteHTML(w io.Writer, tables []*Table, plots []Plot) error {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>softrdma bench</title><style>
body{font-family:sans-serif;max-width:60em;margin:2em auto}table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:left;border-bottom:1px solid #ddd}
.below{color:#c0392b}.gate,.stretch{color:#27864a}</style></head><body><h1>softrdma beside its peers</h1>
<p>Ratios are taken within a round, and the median of the rounds counts. Absolute figures hold for one machine.</p>`)
	for _, t := range tables {
		fmt.Fprintf(&b, `<h2>%s, %d rounds</h2><table><tr><th>figure</th><th>softrdma</th><th>peer</th><th>ratio</th><th>lowest–highest</th><th>gate</th><th></th></tr>`,
			html.EscapeString(t.Path), t.Rounds)
		for i := range t.Rows {
			b.WriteString(t.Rows[i].html())
		}
		b.WriteString("</table>")
	}
	for i := range plots {
		fmt.Fprintf(&b, "<div>%s</div>", plots[i].SVG())
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Row) html() string {
	if r.Lack != "" {
		return fmt.Sprintf(`<tr><td>%s</td><td colspan="6">missing: %s</td></tr>`, html.EscapeString(r.Name), html.EscapeString(r.Lack))
	}
	return fmt.Sprintf(`<tr><td>%s</td><td>%.3g %s</td><td>%.3g %s</td><td>%.2f</td><td>%.2f–%.2f</td><td>%s %g</td><td class="%s">%s</td></tr>`,
		html.EscapeString(r.Name), r.Of, r.Unit, r.Against, r.Unit, r.Ratio, r.Low, r.High, r.Figure.Bound(), r.Gate, r.Verdict(), r.Verdict())
}

// Bound is the sign of the figure's limits.
func (f *Figure) Bound() string {
	if f.Less {
		return "≤"
	}
	return "≥"
}

// Verdict tells which limit the ratio reached: "stretch", "gate", or that it is
// "below".
func (r *Row) Verdict() string {
	switch {
	case r.Figure.Reached(r.Ratio, r.Stretch):
		return "stretch"
	case r.Figure.Reached(r.Ratio, r.Gate):
		return "gate"
	}
	return "below"
}
