package compare

import (
	"context"

	"softrdma/bench/loop"
)

// A Curve is one line of a plot.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	Dashed bool    `json:"dashed,omitempty"` // in the colour of the previous curve
}

// A Point is the median of the rounds at one tick.
type Point struct {
	X     float64 `json:"x"`     // the tick's
	Value float64 `json:"value"` // in the plot's unit
}

// A Tick is a value on the horizontal axis: a message size in bytes, or a loss rate.
type Tick struct {
	X    float64 `json:"x"`
	Name string  `json:"name"`
}

// A Plot shows curves of one metric.
type Plot struct {
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	Log    bool    `json:"log"` // logarithmic values
	Ticks  []Tick  `json:"ticks"`
	Curves []Curve `json:"curves"`
}

// sweepSizes are the message sizes of the plots.
var sweepSizes = []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20}

// A line is what a curve measures.
type line struct {
	name string
	work Work
}

var streams = []line{
	{"softrdma WRITE", Work{Tool: "softrdma", Kind: Stream, Op: "write"}},
	{"softrdma READ", Work{Tool: "softrdma", Kind: Stream, Op: "read"}},
	{"softrdma SEND", Work{Tool: "softrdma", Kind: Stream, Op: "send"}},
	{"iperf3, cubic", Work{Tool: "iperf3", Kind: Stream}},
	{"UCX over TCP, tag_bw", Work{Tool: "UCX-TCP", Kind: Stream, Op: "tag_bw"}},
}

var pings = []line{
	{"softrdma WRITE", Work{Tool: "softrdma", Kind: Ping, Op: "write"}},
	{"softrdma SEND", Work{Tool: "softrdma", Kind: Ping, Op: "send"}},
	{"TCP, spinning", Work{Tool: "kernel", Kind: Ping, Op: loop.OpTCP}},
	{"UCX over TCP, tag_lat", Work{Tool: "UCX-TCP", Kind: Ping, Op: "tag_lat"}},
}

// Sweep measures the plots over the message size: throughput and CPU time of streams,
// latency of pings. It uses Tools, Rounds, Each, Path and Progress of the Run. A plot
// has no point for a measurement that failed.
func (r *Run) Sweep(ctx context.Context) ([]Plot, error) {
	found := make(map[Work][]Result)
	var works []Work
	for _, l := range append(streams[:len(streams):len(streams)], pings...) {
		for _, n := range sweepSizes {
			w := l.work
			w.Bytes = n
			works = append(works, w)
		}
	}
	for round := range r.Rounds {
		for i, w := range works {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if r.Progress != nil {
				r.Progress(round*len(works)+i, r.Rounds*len(works), w)
			}
			if got, err := r.measure(ctx, w); err == nil {
				found[w] = append(found[w], got)
			}
		}
	}
	return []Plot{
		newPlot("Throughput", Throughput, true, streams, found),
		newPlot("CPU time of both ends", CPU, true, streams, found),
		newPlot("Latency, half a round trip, median", P50, true, pings, found),
	}, ctx.Err()
}

func newPlot(title string, m Metric, log bool, lines []line, found map[Work][]Result) Plot {
	unit, scale := m.show()
	p := Plot{Title: title, Unit: unit, Log: log}
	for _, n := range sweepSizes {
		p.Ticks = append(p.Ticks, Tick{float64(n), sizeName(n)})
	}
	for _, l := range lines {
		c := Curve{Name: l.name}
		for _, n := range sweepSizes {
			w := l.work
			w.Bytes = n
			if len(found[w]) == 0 {
				continue
			}
			r := medians(found[w])
			if v := r.value(m) * scale; v > 0 {
				c.Points = append(c.Points, Point{float64(n), v})
			}
		}
		if len(c.Points) > 0 {
			p.Curves = append(p.Curves, c)
		}
	}
	return p
}
