package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"softrdma/verbs"
)

// The operations and metrics of softrdma perf.
const (
	opWrite  = "write"
	opRead   = "read"
	opSend   = "send"
	opAtomic = "atomic"
	opSwap   = "swap" // the demo's
	opTCP    = "tcp"  // the demo's

	metricBandwidth = "bw"
	metricLatency   = "lat"
)

var (
	perfOperations = []string{opWrite, opRead, opSend, opAtomic}
	perfMetrics    = []string{metricBandwidth, metricLatency}
)

const (
	perfVersion = 1 // of the control protocol

	maxSweep      = 8 << 20 // bytes, the last size of -a
	sweepBytes    = 1 << 30 // bytes that -a moves of each size at most, unless -n is given
	maxPerfMemory = 4 << 30 // bytes that a server maps for a client
	maxPerfQPs    = 1024
	maxPerfDepth  = 8192

	creditLen = 64 // bytes of a queue pair's credits, a cache line
)

// perfSettings are what the client tells the server to measure.
type perfSettings struct {
	Operation     string       `json:"operation"`
	Metric        string       `json:"metric"`
	Sizes         []int        `json:"sizes"`             // bytes of a message
	Iterations    int          `json:"iterations"`        // messages of a QP and size
	Seconds       float64      `json:"seconds,omitempty"` // per size, in place of Iterations
	Margin        float64      `json:"margin,omitempty"`  // seconds at either end of these that do not count
	QPs           int          `json:"qps"`
	Depth         int          `json:"depth"`         // requests in flight of a QP
	MTU           int          `json:"mtu,omitempty"` // 0: the smaller of both ports'
	Events        bool         `json:"events,omitempty"`
	Bidirectional bool         `json:"bidirectional,omitempty"`
	Managed       bool         `json:"rdma_cm,omitempty"`  // connect through the connection manager
	Protocol      protocolFlag `json:"protocol,omitempty"` // of the devices

	Congestion verbs.CongestionControl `json:"congestion,omitempty"`
	Recovery   verbs.Recovery          `json:"recovery,omitempty"`
}

// check names what is wrong with settings; the server trusts no client.
func (p *perfSettings) check() error {
	between := func(flag string, n, low, high int) error {
		if n < low || n > high {
			return usageErrorf("%s: expected %d to %d, found %d", flag, low, high, n)
		}
		return nil
	}
	switch {
	case !slices.Contains(perfOperations, p.Operation):
		return usageErrorf("expected %s, found %q", strings.Join(perfOperations, ", "), p.Operation)
	case !slices.Contains(perfMetrics, p.Metric):
		return usageErrorf("expected bw or lat, found %q", p.Metric)
	case len(p.Sizes) == 0 || len(p.Sizes) > 64:
		return usageErrorf("expected 1 to 64 message sizes, found %d", len(p.Sizes))
	case !(p.Seconds >= 0) || math.IsInf(p.Seconds, 1) || p.Seconds > 86400:
		return usageErrorf("-D: expected up to 86400 seconds, found %v", p.Seconds)
	case !(p.Margin >= 0) || p.Margin > 0 && 2*p.Margin >= p.Seconds:
		return usageErrorf("--margin: expected less than half of -D, %v seconds, found %v", p.Seconds, p.Margin)
	case p.Margin > 0 && (p.Metric != metricBandwidth || p.Bidirectional):
		return usageErrorf("--margin: only for bandwidth in one direction")
	case p.Seconds == 0 && p.Iterations < 1:
		return usageErrorf("-n: expected at least 1, found %d", p.Iterations)
	case p.Operation == opAtomic && (len(p.Sizes) != 1 || p.Sizes[0] != 8):
		return usageErrorf("-s: an atomic has 8 bytes")
	case p.Events && p.Operation == opWrite && p.Metric == metricLatency:
		return usageErrorf("-e: the latency of WRITE is measured by polling memory, which raises no events")
	case p.Bidirectional && p.Metric == metricLatency:
		return usageErrorf("-b: latency is measured in both directions anyway")
	case p.Protocol != "" && p.Protocol != protocolRoCE && p.Protocol != protocolIWARP:
		return usageErrorf("--protocol: expected %s or %s, found %q", protocolRoCE, protocolIWARP, p.Protocol)
	case p.Protocol == protocolIWARP && (p.Congestion != "" || p.Recovery != ""):
		return usageErrorf("--congestion, --recovery: iWARP leaves both to TCP")
	case p.Protocol == protocolIWARP && p.MTU != 0:
		return usageErrorf("-m: iWARP has TCP's segments, and no path MTU of its own")
	case p.Managed && p.MTU != 0:
		return usageErrorf("-m: with -R the path MTU is the connection manager's")
	case p.Metric == metricLatency && p.QPs != 1:
		return usageErrorf("-q: latency is measured on one queue pair, found %d", p.QPs)
	}
	if _, err := verbs.ParseCongestionControl(string(p.Congestion)); err != nil {
		return usageErrorf("--congestion: %w", err)
	}
	if _, err := verbs.ParseRecovery(string(p.Recovery)); err != nil {
		return usageErrorf("--recovery: %w", err)
	}
	switch p.MTU {
	case 0, 256, 512, 1024, 2048, 4096:
	default:
		return usageErrorf("-m: expected 256, 512, 1024, 2048 or 4096, found %d", p.MTU)
	}
	for _, s := range p.Sizes {
		if err := between("-s", s, 1, verbs.MaxMessage); err != nil {
			return err
		}
	}
	if err := between("-q", p.QPs, 1, maxPerfQPs); err != nil {
		return err
	}
	if err := between("-t", p.Depth, 1, maxPerfDepth); err != nil {
		return err
	}
	if n := p.memory(); n > maxPerfMemory {
		return usageErrorf("-q %d of -s %d: expected at most %d bytes of memory in all, found %d", p.QPs, slices.Max(p.Sizes), maxPerfMemory, n)
	}
	return nil
}

// stride is the distance of two queue pairs' memory.
func (p *perfSettings) stride() int { return (slices.Max(p.Sizes) + 64) &^ 63 }

// target is where the memory begins that the peer's operations change: one
// stride for each queue pair, behind the ones that this end's operations read.
func (p *perfSettings) target() int { return p.QPs * p.stride() }

// credit is where a queue pair's word lies that tells how many receives it has
// posted, see taker.post; behind it arrives the peer's.
func (p *perfSettings) credit(i int) int { return 2*p.target() + i*creditLen }

func (p *perfSettings) memory() int { return p.credit(p.QPs) }

// iterations is how many messages of a size a queue pair sends, 0 for as many
// as the time allows.
func (p *perfSettings) iterations(size int, sweep bool) int64 {
	switch {
	case p.Seconds > 0:
		return 0
	case sweep:
		return int64(min(p.Iterations, max(sweepBytes/size, 64)))
	}
	return int64(p.Iterations)
}

func (p *perfSettings) duration() time.Duration {
	return time.Duration(p.Seconds * float64(time.Second))
}

// steady is the part of the duration that counts.
func (p *perfSettings) steady() (from, to time.Duration) {
	if p.Margin == 0 {
		return 0, math.MaxInt64
	}
	m := time.Duration(p.Margin * float64(time.Second))
	return m, p.duration() - m
}

func (p *perfSettings) side() sideConfig {
	c := sideConfig{QPs: p.QPs, Depth: p.Depth, Recv: 1, Memory: p.memory(), Events: p.Events, Managed: p.Managed,
		Congestion: p.Congestion, Recovery: p.Recovery}
	if p.Metric == metricLatency {
		c.Depth, c.Inline = 4*signalEvery, inlineLimit
	}
	if p.Operation == opSend {
		// As many again as can be on their way, so that a receive is there
		// while others are being posted.
		c.Recv = max(2*p.Depth, 2*signalEvery)
		c.Depth += 2 // beside the mark for a READ of the peer's credit
	}
	return c
}

// sweepSizes are the sizes of -a.
func sweepSizes() (s []int) {
	for n := 2; n <= maxSweep; n *= 2 {
		s = append(s, n)
	}
	return s
}
