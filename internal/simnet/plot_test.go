package simnet_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/queue"
)

var plots = flag.String("plots", "", "write the plots of docs/congestion.md to this directory")

// A line is one series of a plot.
type line struct {
	name string
	x, y []float64
}

// A plot is a diagram of lines.
type plot struct {
	title, xName, yName string
	xLabels             []string // names of the places 0, 1, ... instead of numbers
	lines               []line
	log                 bool // the y axis is logarithmic
}

var colours = [...]string{"#1f6fb4", "#d9541a", "#2a9d4a", "#8a4fbf", "#b8860b", "#555555"}

// svg draws the plot. Numbers are rounded to a tenth of a pixel to keep files small.
func (p *plot) svg() string {
	const w, h, left, right, top, bottom = 640, 320, 70, 150, 30, 45
	x1, y0, y1 := 0.0, math.Inf(1), 0.0
	for _, l := range p.lines {
		for i := range l.x {
			x1, y0, y1 = max(x1, l.x[i]), min(y0, l.y[i]), max(y1, l.y[i])
		}
	}
	if !p.log {
		y0 = 0
	}
	scale := func(v float64) float64 {
		if p.log {
			return (math.Log10(v) - math.Log10(y0)) / (math.Log10(y1) - math.Log10(y0))
		}
		return v / y1
	}
	px := func(x float64) float64 { return left + x/x1*(w-left-right) }
	py := func(y float64) float64 { return h - bottom - scale(y)*(h-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="18" font-size="14">%s</text>`+"\n", w, h, left, p.title)
	for i := range 5 {
		v := y1 * float64(i) / 4
		if p.log {
			v = y0 * math.Pow(y1/y0, float64(i)/4)
		}
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n", left, py(v), w-right, left-6, py(v)+4, v)
	}
	if p.xLabels == nil {
		for i := range 5 {
			v := x1 * float64(i) / 4
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.3g</text>`+"\n", px(v), h-bottom+16, v)
		}
	}
	for i, s := range p.xLabels {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", px(float64(i)), h-bottom+16, s)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+w-right)/2, h-8, p.xName)
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", h/2, p.yName)
	for i, l := range p.lines {
		c := colours[i%len(colours)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, c)
		for k := range l.x {
			fmt.Fprintf(&b, "%.1f,%.1f ", px(l.x[k]), py(l.y[k]))
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n", w-right+8, top+12+16*i, c, l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// TestPlots writes the plots of the documentation. All times in them are virtual, so the plots
// are the same on every machine.
func TestPlots(t *testing.T) {
	if *plots == "" {
		t.Skip("no directory given with -plots")
	}
	for name, p := range map[string]*plot{"goodput.svg": goodputPlot(t), "queue.svg": queuePlot(t), "shares.svg": sharesPlot(t)} {
		if err := os.WriteFile(filepath.Join(*plots, name), []byte(p.svg()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goodputPlot shows goodput by loss, with both kinds of recovery.
func goodputPlot(t *testing.T) *plot {
	p := &plot{
		title: "One queue pair, 10 Gbit/s, round trip 1 ms, window 1 MiB", xName: "packets lost", yName: "goodput, Mbit/s",
		xLabels: []string{"0", "0.01 %", "0.1 %", "0.5 %", "1 %", "2 %", "5 %"}, log: true,
	}
	for _, c := range []struct {
		name     string
		op       queue.Op
		recovery congestion.Recovery
	}{
		{"WRITE, selective", queue.Write, congestion.SelectiveRepeat}, {"READ, selective", queue.Read, congestion.SelectiveRepeat},
		{"WRITE, go-back-N", queue.Write, congestion.GoBackN}, {"READ, go-back-N", queue.Read, congestion.GoBackN},
	} {
		l := line{name: c.name}
		for i, loss := range []float64{0, 0.0001, 0.001, 0.005, 0.01, 0.02, 0.05} {
			k := course{op: c.op, loss: loss, delay: 500 * time.Microsecond, queue: 2 << 20, recovery: c.recovery}
			v, _ := k.goodput(t)
			l.x, l.y = append(l.x, float64(i)), append(l.y, v/1e6)
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// marked returns the bottleneck of the plots.
func marked(k congestion.Kind) funnel {
	return funnel{control: k, flows: 16, bandwidth: 10e9, queue: 4 << 20, markAbove: 100 << 10, delay: 10 * time.Microsecond}
}

// queuePlot shows the queue before a bottleneck that sixteen flows share.
func queuePlot(t *testing.T) *plot {
	p := &plot{
		title: "Sixteen flows into one port of 10 Gbit/s, marks above 100 KiB", xName: "time, ms",
		yName: "longest queue in each half ms, KiB", log: true,
	}
	for _, k := range []congestion.Kind{congestion.None, congestion.Window, congestion.DCQCN, congestion.Delay} {
		f := marked(k)
		w := f.open(t)
		l := line{name: k.String()}
		for at := time.Millisecond / 2; at <= 60*time.Millisecond; at += time.Millisecond / 2 {
			w.run(t, at)
			_, in := w.sink.Link.Stats()
			w.sink.Link.RestartPeak()
			l.x, l.y = append(l.x, at.Seconds()*1000), append(l.y, max(float64(in.Peak)/1024, 1))
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// sharesPlot shows the share of each of the sixteen flows, in ascending order.
func sharesPlot(t *testing.T) *plot {
	p := &plot{
		title: "What each of sixteen flows gets of 10 Gbit/s", xName: "flows, from the least to the most", yName: "goodput, Mbit/s",
	}
	for _, k := range []congestion.Kind{congestion.None, congestion.Window, congestion.DCQCN, congestion.Delay} {
		f := marked(k)
		o := f.open(t).between(t, 60*time.Millisecond, 160*time.Millisecond)
		l := line{name: fmt.Sprintf("%v (Jain %.3f)", k, o.fair)}
		for i, v := range o.shares {
			l.x, l.y = append(l.x, float64(i+1)), append(l.y, v/1e6)
		}
		p.lines = append(p.lines, l)
	}
	return p
}
