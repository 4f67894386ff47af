package bench

// A Metric is which number of a result counts.
type Metric string

// The metrics. Of P50 and P99 less is better.
const (
	Throughput Metric = "throughput"
	Rate       Metric = "rate"
	CPU        Metric = "CPU time"
	P50        Metric = "median latency"
	P99        Metric = "p99 latency"
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
	}
	return "µs", 1
}

// A Measure is one number of one work.
type Measure struct {
	Work   Work
	Metric Metric
}

// A Figure is a ratio of two measures with what it is to reach: at least the
// gate, or where less is better at most.
type Figure struct {
	Name          string
	Of, Against   Measure
	Less          bool // less is better
	Gate, Stretch float64
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
	return []Figure{
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
		{"8 B SEND latency sleeping, of blocking UDP", at(asleep, P50), at(block, P50), true, 1.3, 1.1},
		{"8 B WRITE rate, of UCX over TCP, tag_bw", at(rdma(Stream, "write", word), Rate), at(ucx(Stream, "tag_bw", word), Rate), false, 15, 40},
		{"CPU time of 1 MiB WRITE, of iperf3", at(write, CPU), at(iperf, CPU), true, 1.3, 1},
	}
}
