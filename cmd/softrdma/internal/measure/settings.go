package measure

import (
	"math"
	"slices"
	"strings"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

// Operations and metrics.
const (
	OpWrite  = "write"
	OpRead   = "read"
	OpSend   = "send"
	OpAtomic = "atomic"
	OpSwap   = "swap" // used by the demo only
	OpTCP    = "tcp"  // used by the demo only

	MetricBandwidth = "bw"
	MetricLatency   = "lat"
)

// A MemoryKind is the kind of memory that both ends register.
type MemoryKind string

// The kinds of memory.
const (
	MemoryAlloc    MemoryKind = "alloc"    // of verbs.AllocMemory
	MemoryOrdinary MemoryKind = "ordinary" // of Go's heap
)

// MemoryKinds holds the values of --memory.
var MemoryKinds = []string{string(MemoryAlloc), string(MemoryOrdinary)}

var (
	Operations = []string{OpWrite, OpRead, OpSend, OpAtomic}
	Metrics    = []string{MetricBandwidth, MetricLatency}
)

// GiB is 2^30 bytes.
const GiB = 1 << 30

const (
	ProtocolVersion = 1 // of the control protocol

	maxSweep   = 8 << 20 // bytes, the largest size of -a
	sweepBytes = 1 << 30 // bytes that -a transfers at most of each size, unless -n is given
	maxMemory  = 4 << 30 // bytes that a server allocates for a client
	maxQPs     = 1024
	maxDepth   = 8192

	creditLen = 64 // bytes of a queue pair's credits: a cache line
)

// Settings describe a measurement. The client sends them to the server.
type Settings struct {
	Operation     string       `json:"operation"`
	Metric        string       `json:"metric"`
	Sizes         []int        `json:"sizes"`             // bytes of a message
	Iterations    int          `json:"iterations"`        // messages of each queue pair and size
	Seconds       float64      `json:"seconds,omitempty"` // for each size, instead of Iterations
	Margin        float64      `json:"margin,omitempty"`  // seconds at the beginning and end of Seconds that are not counted
	QPs           int          `json:"qps"`
	Depth         int          `json:"depth"`         // requests in flight on each queue pair
	MTU           int          `json:"mtu,omitempty"` // 0 means the smaller of both ports'
	Events        bool         `json:"events,omitempty"`
	Bidirectional bool         `json:"bidirectional,omitempty"`
	Managed       bool         `json:"rdma_cm,omitempty"`  // connect through the connection manager
	Protocol      cli.Protocol `json:"protocol,omitempty"` // of the devices

	Memory     MemoryKind              `json:"memory,omitempty"` // "" means MemoryAlloc
	Congestion verbs.CongestionControl `json:"congestion,omitempty"`
	Recovery   verbs.Recovery          `json:"recovery,omitempty"`
}

// Check returns an error if the settings are invalid. The server calls it as well,
// because it does not trust its clients.
func (p *Settings) Check() error {
	for _, check := range []func() error{p.checkTest, p.checkTransport, p.checkLimits} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkTest checks what is measured and for how long.
func (p *Settings) checkTest() error {
	switch {
	case !slices.Contains(Operations, p.Operation):
		return cli.UsageErrorf("expected %s, found %q", strings.Join(Operations, ", "), p.Operation)
	case !slices.Contains(Metrics, p.Metric):
		return cli.UsageErrorf("expected bw or lat, found %q", p.Metric)
	case len(p.Sizes) == 0 || len(p.Sizes) > 64:
		return cli.UsageErrorf("expected 1 to 64 message sizes, found %d", len(p.Sizes))
	case !(p.Seconds >= 0) || math.IsInf(p.Seconds, 1) || p.Seconds > 86400:
		return cli.UsageErrorf("-D: expected up to 86400 seconds, found %v", p.Seconds)
	case !(p.Margin >= 0) || p.Margin > 0 && 2*p.Margin >= p.Seconds:
		return cli.UsageErrorf("--margin: expected less than half of -D (%v seconds), found %v", p.Seconds, p.Margin)
	case p.Margin > 0 && (p.Metric != MetricBandwidth || p.Bidirectional):
		return cli.UsageErrorf("--margin: only for bandwidth in one direction")
	case p.Seconds == 0 && p.Iterations < 1:
		return cli.UsageErrorf("-n: expected at least 1, found %d", p.Iterations)
	case p.Operation == OpAtomic && (len(p.Sizes) != 1 || p.Sizes[0] != 8):
		return cli.UsageErrorf("-s: atomic operations have 8 bytes")
	case p.Memory != "" && !slices.Contains(MemoryKinds, string(p.Memory)):
		return cli.UsageErrorf("--memory: expected %s, found %q", strings.Join(MemoryKinds, " or "), p.Memory)
	case p.Events && p.Operation == OpWrite && p.Metric == MetricLatency:
		return cli.UsageErrorf("-e: the latency of WRITE is measured by polling memory, which generates no events")
	case p.Bidirectional && p.Metric == MetricLatency:
		return cli.UsageErrorf("-b: latency tests always use both directions")
	case p.Metric == MetricLatency && p.QPs != 1:
		return cli.UsageErrorf("-q: latency is measured on one queue pair, found %d", p.QPs)
	}
	return nil
}

// checkTransport checks how the queue pairs are connected.
func (p *Settings) checkTransport() error {
	switch {
	case p.Protocol != "" && p.Protocol != cli.ProtocolRoCE && p.Protocol.Verbs() == verbs.RoCE: // of an unknown one
		return cli.UsageErrorf("--protocol: expected %s, %s or %s, found %q", cli.ProtocolRoCE, cli.ProtocolRoCEv1, cli.ProtocolIWARP, p.Protocol)
	case p.Protocol == cli.ProtocolIWARP && (p.Congestion != "" || p.Recovery != ""):
		return cli.UsageErrorf("--congestion, --recovery: iWARP leaves both to TCP")
	case p.Protocol == cli.ProtocolIWARP && p.MTU != 0:
		return cli.UsageErrorf("-m: iWARP has no path MTU, only TCP's segments")
	case p.Managed && p.MTU != 0:
		return cli.UsageErrorf("-m: with -R the connection manager chooses the path MTU")
	}
	if _, err := verbs.ParseCongestionControl(string(p.Congestion)); err != nil {
		return cli.UsageErrorf("--congestion: %w", err)
	}
	if _, err := verbs.ParseRecovery(string(p.Recovery)); err != nil {
		return cli.UsageErrorf("--recovery: %w", err)
	}
	if p.MTU == 0 {
		return nil
	}
	return cli.CheckMTU(p.MTU)
}

// checkLimits checks the numbers that decide how much memory the test takes.
func (p *Settings) checkLimits() error {
	between := func(flag string, n, low, high int) error {
		if n < low || n > high {
			return cli.UsageErrorf("%s: expected %d to %d, found %d", flag, low, high, n)
		}
		return nil
	}
	for _, s := range p.Sizes {
		if err := between("-s", s, 1, verbs.MaxMessage); err != nil {
			return err
		}
	}
	if err := between("-q", p.QPs, 1, maxQPs); err != nil {
		return err
	}
	if err := between("-t", p.Depth, 1, maxDepth); err != nil {
		return err
	}
	if n := p.memory(); n > maxMemory {
		return cli.UsageErrorf("-q %d with -s %d: expected at most %d bytes of memory, found %d", p.QPs, slices.Max(p.Sizes), maxMemory, n)
	}
	return nil
}

// stride is the distance between the memory of two queue pairs.
func (p *Settings) stride() int { return (slices.Max(p.Sizes) + 64) &^ 63 }

// Target returns the offset of the memory that the peer's operations change. Each queue
// pair has one stride of it. The memory before it is what this end sends.
func (p *Settings) Target() int { return p.QPs * p.stride() }

// creditOffset returns the offset of the word that counts the receives that queue pair
// i has posted, see receiver.post. The peer's count is read into the next word.
func (p *Settings) creditOffset(i int) int { return 2*p.Target() + i*creditLen }

func (p *Settings) memory() int { return p.creditOffset(p.QPs) }

// MessagesOf returns the number of messages of a size that each queue pair sends, or 0
// if the time limits it.
func (p *Settings) MessagesOf(size int, sweep bool) int64 {
	switch {
	case p.Seconds > 0:
		return 0
	case sweep:
		return int64(min(p.Iterations, max(sweepBytes/size, 64)))
	}
	return int64(p.Iterations)
}

// Duration returns the duration of each test.
func (p *Settings) Duration() time.Duration {
	return time.Duration(p.Seconds * float64(time.Second))
}

// countedInterval returns the part of the duration that is counted.
func (p *Settings) countedInterval() (from, to time.Duration) {
	if p.Margin == 0 {
		return 0, math.MaxInt64
	}
	m := time.Duration(p.Margin * float64(time.Second))
	return m, p.Duration() - m
}

// SideConfig returns the configuration of each end.
func (p *Settings) SideConfig() SideConfig {
	c := SideConfig{QPs: p.QPs, Depth: p.Depth, Recv: 1, Memory: p.memory(), MemoryKind: p.Memory, Events: p.Events, Managed: p.Managed,
		Congestion: p.Congestion, Recovery: p.Recovery}
	if p.Metric == MetricLatency {
		c.Depth, c.Inline = 4*SignalEvery, InlineLimit
	}
	if p.Operation == OpSend {
		// Twice the depth, so that receives are left while others are posted again.
		c.Recv = max(2*p.Depth, 2*SignalEvery)
		c.Depth += 2 // for a marker and a READ of the peer's credit
	}
	return c
}

// SweepSizes returns the message sizes of -a.
func SweepSizes() (s []int) {
	for n := 2; n <= maxSweep; n *= 2 {
		s = append(s, n)
	}
	return s
}
