package compare

import (
	"fmt"
	"slices"

	"softrdma/bench/loop"
)

// A Metric is one number of a result.
type Metric string

// The metrics. For all except Throughput and Rate less is better.
const (
	Throughput  Metric = "throughput"
	Rate        Metric = "rate"
	CPU         Metric = "CPU time"
	P50         Metric = "median latency"
	P99         Metric = "p99 latency"
	Memory      Metric = "memory"
	Allocations Metric = "allocations"
	Idleness    Metric = "CPU time of an idle device"
	Wakeups     Metric = "wake-ups of an idle device" // a gate of 0 means none
	Resident    Metric = "memory of a library"
	Start       Metric = "time to start"
)

func (r *Result) value(m Metric) float64 {
	switch m {
	case Throughput:
		return r.Throughput
	case Rate:
		return r.Rate
	case CPU:
		return r.CPU
	case P50:
		return r.P50
	case Memory:
		return r.Memory
	case Allocations:
		return r.Allocations
	case Idleness:
		return r.Idle
	case Wakeups:
		return r.Wakeups
	case Resident:
		return r.Resident
	case Start:
		return r.Start
	}
	return r.P99
}

// show returns the unit in which the metric is printed, and the factor that converts
// a result's value to it.
func (m Metric) show() (unit string, scale float64) {
	switch m {
	case Throughput:
		return "GB/s", 1e-9
	case Rate:
		return "M/s", 1e-6
	case CPU:
		return "s/GiB", 1
	case Memory:
		return "B", 1
	case Allocations:
		return "an operation", 1
	case Idleness:
		return "% of a core", 100
	case Wakeups:
		return "in the measured time", 1
	case Resident:
		return "MiB", 1. / mib
	case Start:
		return "ms", 1e3
	}
	return "µs", 1
}

// A Measure is one number of one work.
type Measure struct {
	Work   Work
	Metric Metric
}

// A Figure is a ratio of two measures and its limits: the ratio must be at least the
// gate, or at most if less is better. A figure without Against is absolute: its value
// is the measure itself.
type Figure struct {
	Name          string
	Of, Against   Measure
	Less          bool    // less is better
	Gate, Stretch float64 // 0 means no limit: the figure is only for comparison
}

// Reached reports whether the ratio is at least as good as the limit.
func (f *Figure) Reached(ratio, limit float64) bool {
	if f.Less {
		return ratio <= limit
	}
	return ratio >= limit
}

const (
	mib  = 1 << 20
	word = 8
)

// Figures returns the figures for a path. The gates for TCP differ between loopback and
// other interfaces, where TCP has a higher cost per packet.
func Figures(loopback bool) []Figure {
	rdma := func(k Kind, op string, bytes int) Work { return Work{Tool: "softrdma", Kind: k, Op: op, Bytes: bytes} }
	ucx := func(k Kind, op string, bytes int) Work { return Work{Tool: "UCX-TCP", Kind: k, Op: op, Bytes: bytes} }
	write, small := rdma(Stream, "write", mib), rdma(Stream, "write", mib)
	small.MTU = 1024
	ping, send, asleep := rdma(Ping, "write", word), rdma(Ping, "send", word), rdma(Ping, "send", word)
	asleep.Events = true
	sleeping := write
	sleeping.Events = true
	udp := Work{Tool: "kernel", Kind: Stream, Op: loop.OpUDP, Bytes: mib}
	spin := Work{Tool: "kernel", Kind: Ping, Op: loop.OpUDP, Bytes: word}
	block := spin
	block.Events = true
	tcp := Work{Tool: "kernel", Kind: Stream, Op: loop.OpTCP, Bytes: mib}
	iperf := Work{Tool: "iperf3", Kind: Stream, Bytes: mib}
	gate, stretch := 1.0, 1.3
	if loopback {
		gate, stretch = .8, 1.0
	}
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	figures := []Figure{
		{"1 MiB WRITE, of raw UDP with GSO", at(write, Throughput), at(udp, Throughput), false, .45, .65},
		{"1 MiB WRITE, of iperf3 with cubic", at(write, Throughput), at(iperf, Throughput), false, gate, stretch},
		{"1 MiB WRITE, of a plain TCP stream with cubic", at(write, Throughput), at(tcp, Throughput), false, gate, stretch},
		{"1 MiB WRITE, of UCX over TCP, tag_bw", at(write, Throughput), at(ucx(Stream, "tag_bw", mib), Throughput), false, 1, 1.3},
		{"1 MiB WRITE, of UCX over TCP, put_bw", at(write, Throughput), at(ucx(Stream, "ucp_put_bw", mib), Throughput), false, 6, 8},
		{"1 MiB READ, of WRITE", at(rdma(Stream, "read", mib), Throughput), at(write, Throughput), false, .85, 1},
		{"1 MiB SEND, of WRITE", at(rdma(Stream, "send", mib), Throughput), at(write, Throughput), false, .85, 1},
		{"path MTU 1024, of the path's", at(small, Throughput), at(write, Throughput), false, .8, .9},
		{"8 B WRITE latency, of raw UDP spinning", at(ping, P50), at(spin, P50), true, 1.4, 1.2},
		{"8 B SEND latency, of raw UDP spinning", at(send, P50), at(spin, P50), true, 1.4, 1.2},
		{"8 B WRITE latency, of UCX over TCP, tag_lat", at(ping, P50), at(ucx(Ping, "tag_lat", word), P50), true, .75, .6},
		{"8 B WRITE latency, p99 of p50", at(ping, P99), at(ping, P50), true, 2, 1.3},
		{"8 B raw UDP latency spinning, p99 of p50", at(spin, P99), at(spin, P50), true, 0, 0},
		{"8 B SEND latency sleeping, of blocking UDP", at(asleep, P50), at(block, P50), true, 1.3, 1.1},
		{"8 B WRITE rate, of UCX over TCP, tag_bw", at(rdma(Stream, "write", word), Rate), at(ucx(Stream, "tag_bw", word), Rate), false, 15, 40},
		{"CPU time of 1 MiB WRITE, of iperf3", at(write, CPU), at(iperf, CPU), true, 1.3, 1},
		{"CPU time of 1 MiB WRITE sleeping, of iperf3", at(sleeping, CPU), at(iperf, CPU), true, 1.3, 1},
	}
	if loopback {
		figures = slices.Concat(figures, observedFigures(), programFigures(false), fabricFigures())
	}
	return slices.Concat(figures, messageFigures(false), scalingFigures(), iwarpFigures())
}

// Absolute reports whether the figure is an absolute value and not a ratio.
func (f *Figure) Absolute() bool { return f.Against == Measure{} }

// none reports whether the figure's gate is that there are none.
func (f *Figure) none() bool { return f.Of.Metric == Wakeups }

// measures returns the figure's one or two measures.
func (f *Figure) measures() []Measure {
	if f.Absolute() {
		return []Measure{f.Of}
	}
	return []Measure{f.Of, f.Against}
}

// Bound returns the comparison sign of the figure's limits.
func (f *Figure) Bound() string {
	if f.Less {
		return "≤"
	}
	return "≥"
}

// Limit formats one of the figure's limits.
func (r *Row) Limit(v float64) string {
	if v == 0 && !r.Figure.none() {
		return "–"
	}
	return fmt.Sprintf("%s %g", r.Figure.Bound(), v)
}

// Cells returns the columns of a report: both measures, their ratio, and the range of
// the ratios.
func (r *Row) Cells() (of, against, ratio, span string) {
	of = fmt.Sprintf("%.3g %s", r.Of, r.Unit)
	if r.Figure.Absolute() {
		return of, "–", "–", fmt.Sprintf("%.3g–%.3g", r.Low, r.High)
	}
	return of, fmt.Sprintf("%.3g %s", r.Against, r.Unit), fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f–%.2f", r.Low, r.High)
}

// Verdict returns the best limit that the ratio reached, "stretch" or "gate", else
// "below", or "" if there is no limit.
func (r *Row) Verdict() string {
	switch {
	case r.Figure.none() && r.Ratio == 0:
		return "gate"
	case r.Figure.none():
		return "below"
	case r.Gate == 0:
		return ""
	case r.Figure.Stretch != 0 && r.Figure.Reached(r.Ratio, r.Figure.Stretch):
		return "stretch"
	case r.Figure.Reached(r.Ratio, r.Gate):
		return "gate"
	}
	return "below"
}
