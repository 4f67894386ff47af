package simulate

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"softrdma/internal/simulate"
)

// A plot is curves over two axes. A library would bring fonts of some megabytes into the program.
type plot struct {
	title, x, y string
	curves      []simulate.Series
	logX, logY  bool
	dots        bool // at the points of curves
}

// Sizes in pixels.
const (
	plotWidth, plotHeight = 960.0, 320.0
	left, right           = 70.0, 270.0
	top, bottom           = 36.0, 44.0

	maxPoints = 500 // of a curve
	maxCurves = 12
	maxTicks  = 12
)

// colors can be told from each other, and from a white and a black page.
var colors = []string{"#4e79a7", "#e15759", "#59a14f", "#f28e2b", "#b07aa1", "#9c755f", "#d37295", "#499894", "#8a8a8a", "#b6992d", "#2f8fd6", "#a0522d"}

// An axis maps values to pixels.
type axis struct {
	low, high float64 // values; powers of ten of them with log
	log       bool
	from, to  float64 // pixels
}

func (a *axis) at(v float64) float64 {
	if a.log {
		v = logarithm(v)
	}
	return a.from + (a.to-a.from)*(v-a.low)/(a.high-a.low)
}

// logarithm is that of a value that may be 0.
func logarithm(v float64) float64 { return math.Log10(max(v, 1e-9)) }

// ticks returns round values: about five, or the powers of ten, with some between if they are few.
func (a *axis) ticks() (list []float64) {
	if a.log {
		for e := a.low; e <= a.high; e += math.Ceil((a.high - a.low) / maxTicks) {
			list = append(list, math.Pow(10, e))
			if a.high-a.low < 2 && e < a.high { // one power would be too little to read values off
				list = append(list, 2*math.Pow(10, e), 5*math.Pow(10, e))
			}
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/5)))
	for _, m := range []float64{5, 2} {
		if (a.high-a.low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	first := math.Ceil(a.low/step) * step
	for i := range maxTicks {
		if v := first + float64(i)*step; v <= a.high+step/1e6 {
			list = append(list, v)
		}
	}
	return list
}

// axes returns the axes that hold all curves. The vertical one begins at 0, or with logY at a power of ten.
func (p *plot) axes() (x, y axis) {
	x = axis{low: math.Inf(1), high: math.Inf(-1), log: p.logX, from: left, to: plotWidth - right}
	y = axis{log: p.logY, from: plotHeight - bottom, to: top}
	if y.log {
		y.low, y.high = math.Inf(1), math.Inf(-1)
	}
	for _, c := range p.curves {
		for _, q := range c.Points {
			v := q.X
			if x.log {
				v = logarithm(v)
			}
			x.low, x.high = min(x.low, v), max(x.high, v)
			if w := q.Y; y.log {
				w = logarithm(w)
				y.low, y.high = min(y.low, w), max(y.high, w)
			} else {
				y.high = max(y.high, w)
			}
		}
	}
	if x.low > x.high { // no points
		x.low, x.high = 0, 0
	}
	if x.log {
		x.powers()
	}
	if x.high == x.low {
		x.high = x.low + 1
	}
	if y.log {
		y.powers()
		return x, y
	}
	if y.high <= 0 {
		y.high = 1
	}
	y.high *= 1.04
	return x, y
}

// powers lets an axis begin and end with powers of ten.
func (a *axis) powers() {
	if a.low > a.high { // no points
		a.low, a.high = 0, 0
	}
	if a.low, a.high = math.Floor(a.low), math.Ceil(a.high); a.high == a.low {
		a.high = a.low + 1
	}
}

// svg returns the plot as an image.
func (p *plot) svg() template.HTML {
	var b strings.Builder
	x, y := p.axes()
	text := template.HTMLEscapeString
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%.0f" y="20" font-size="15">%s</text><text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n",
		left, text(p.title), (left+plotWidth-right)/2, plotHeight-8, text(p.x))
	fmt.Fprintf(&b, `<text transform="translate(14 %.0f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+plotHeight-bottom)/2, text(p.y))
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" class="grid" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x.at(v), y.from, y.to, x.at(v), y.from+16, label(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" class="grid" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			x.from, y.at(v), x.to, x.from-6, y.at(v)+4, label(v))
	}
	for i, c := range p.curves {
		if i == maxCurves {
			fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">and %d more</text>`+"\n", plotWidth-right+16, top+12+18*maxCurves, len(p.curves)-maxCurves)
			break
		}
		fmt.Fprintf(&b, `<path fill="none" stroke="%s" stroke-width="1.6" d="`, colors[i])
		step := max(1, (len(c.Points)+maxPoints-1)/maxPoints)
		for k := 0; k < len(c.Points); k += step {
			q := highest(c.Points[k:min(k+step, len(c.Points))])
			fmt.Fprintf(&b, "%s%.1f %.1f", command(k), x.at(q.X), y.at(q.Y))
		}
		b.WriteString(`"/>`)
		if p.dots {
			for _, q := range c.Points {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.at(q.X), y.at(q.Y), colors[i])
			}
		}
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh18" stroke="%s" stroke-width="3"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			plotWidth-right+16, top+8+18*float64(i), colors[i], plotWidth-right+40, top+12+18*float64(i), text(c.Name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// highest returns the highest of some points, so that a curve with fewer points keeps its peaks.
func highest(list []simulate.Point) simulate.Point {
	best := list[0]
	for _, q := range list[1:] {
		if q.Y > best.Y {
			best = q
		}
	}
	return best
}

func command(k int) string {
	if k == 0 {
		return "M"
	}
	return "L"
}

func label(v float64) string {
	if v >= 1e4 && v < 1e8 { // without an exponent
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
