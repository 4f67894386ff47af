package bench

import "fmt"

// A Metric is which number of a result counts.
type Metric string

// The metrics. Of all but Throughput and Rate less is better.
const (
	Throughput  Metric = "throughput"
	Rate        Metric = "rate"
	CPU         Metric = "CPU time"
	P50         Metric = "median latency"
	P99         Metric = "p99 latency"
	Memory      Metric = "memory"
	Allocations Metric = "allocations"
	Idleness    Metric = "CPU time of an idle device"
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
	}
	return r.P99
}

// show gives the value with its unit.
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
	}
	return "µs", 1
}

// A Measure is one number of one work.
type Measure struct {
	Work   Work
	Metric Metric
}

// A Figure is a ratio of two measures with what it is to reach: at least the
// gate, or where less is better at most. With nothing to compare with it is the
// measure itself, in its unit.
type Figure struct {
	Name          string
	Of, Against   Measure
	Less          bool    // less is better
	Gate, Stretch float64 // 0 is none: a row without is there to compare another with
}

// Reached tells whether the ratio is as good as the limit.
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

// Figures are what is measured on a path. TCP's shares differ: where packets
// cross an interface they cost TCP more.
func Figures(loopback bool) []Figure {
	rdma := func(k Kind, op string, bytes int) Work { return Work{Tool: "softrdma", Kind: k, Op: op, Bytes: bytes} }
	ucx := func(k Kind, op string, bytes int) Work { return Work{Tool: "UCX-TCP", Kind: k, Op: op, Bytes: bytes} }
	write, small := rdma(Stream, "write", mib), rdma(Stream, "write", mib)
	small.MTU = 1024
	ping, send, asleep := rdma(Ping, "write", word), rdma(Ping, "send", word), rdma(Ping, "send", word)
	asleep.Events = true
	sleeping := write
	sleeping.Events = true
	udp := Work{Tool: "kernel", Kind: Stream, Op: OpUDP, Bytes: mib}
	spin := Work{Tool: "kernel", Kind: Ping, Op: OpUDP, Bytes: word}
	block := spin
	block.Events = true
	tcp := Work{Tool: "kernel", Kind: Stream, Op: OpTCP, Bytes: mib}
	iperf := Work{Tool: "iperf3", Kind: Stream, Bytes: mib}
	gate, stretch := 1.0, 1.3
	if loopback {
		gate, stretch = .8, 1.0
	}
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return append([]Figure{
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
		{"the same of raw UDP spinning", at(spin, P99), at(spin, P50), true, 0, 0},
		{"8 B SEND latency sleeping, of blocking UDP", at(asleep, P50), at(block, P50), true, 1.3, 1.1},
		{"8 B WRITE rate, of UCX over TCP, tag_bw", at(rdma(Stream, "write", word), Rate), at(ucx(Stream, "tag_bw", word), Rate), false, 15, 40},
		{"CPU time of 1 MiB WRITE, of iperf3", at(write, CPU), at(iperf, CPU), true, 1.3, 1},
		{"CPU time of 1 MiB WRITE sleeping, of iperf3", at(sleeping, CPU), at(iperf, CPU), true, 1.3, 1},
	}, append(crowdFigures(), iwarpFigures()...)...)
}

// Absolute tells whether the figure is no ratio.
func (f *Figure) Absolute() bool { return f.Against == Measure{} }

// measures are what the figure is made of.
func (f *Figure) measures() []Measure {
	if f.Absolute() {
		return []Measure{f.Of}
	}
	return []Measure{f.Of, f.Against}
}

// Bound is the sign of the figure's limits.
func (f *Figure) Bound() string {
	if f.Less {
		return "≤"
	}
	return "≥"
}

// Limit shows one of the figure's limits.
func (r *Row) Limit(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%s %g", r.Figure.Bound(), v)
}

// Cells are what was found as reports show it: both measures, their ratio, and
// the lowest and the highest.
func (r *Row) Cells() (of, against, ratio, span string) {
	of = fmt.Sprintf("%.3g %s", r.Of, r.Unit)
	if r.Figure.Absolute() {
		return of, "–", "–", fmt.Sprintf("%.3g–%.3g", r.Low, r.High)
	}
	return of, fmt.Sprintf("%.3g %s", r.Against, r.Unit), fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f–%.2f", r.Low, r.High)
}

// Verdict tells which limit the ratio reached: "stretch", "gate", or that it is
// "below"; nothing where there is no limit.
func (r *Row) Verdict() string {
	switch {
	case r.Gate == 0:
		return ""
	case r.Figure.Stretch != 0 && r.Figure.Reached(r.Ratio, r.Figure.Stretch):
		return "stretch"
	case r.Figure.Reached(r.Ratio, r.Gate):
		return "gate"
	}
	return "below"
}
