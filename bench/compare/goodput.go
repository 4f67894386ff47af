package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"softrdma/internal/congestion"

	"softrdma/bench/loop"
)

// A Goodput is the goodput of concurrent flows: the rate at which the receiving program
// gets payload, without headers and retransmissions, after the flows have grown.
type Goodput struct {
	Bits     float64           `json:"bits_per_s"`
	Shares   []float64         `json:"shares_bits_per_s,omitempty"` // of each flow
	Counters map[string]uint64 `json:"counters,omitempty"`          // counters of both ends, by reason
}

func newGoodput(shares []float64) (g Goodput) {
	g.Shares = shares
	for _, s := range shares {
		g.Bits += s
	}
	return g
}

// Fairness returns Jain's index of the shares.
func (g *Goodput) Fairness() float64 { return congestion.Jain(g.Shares) }

// A Sender sends as much as a path carries. Saturate starts both ends, runs the flows
// for the time d, and stops all its processes. The margins at the beginning and the end
// of d are not measured.
type Sender interface {
	Name() string
	Check() error // the reason why the sender is not available, or nil
	Saturate(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error)
}

// TCPSender is the kernel's TCP with a congestion control. Both ends run
// `bench end`.
type TCPSender struct {
	Path    string // of the command
	Control string
}

// Name returns "TCP" and the congestion control.
func (s TCPSender) Name() string { return "TCP " + s.Control }

// Check returns an error unless the kernel has the congestion control.
func (s TCPSender) Check() error { return loop.CheckControl(s.Control) }

// tcpBufferLen is the length of a TCP end's reads and writes.
const tcpBufferLen = 64 << 10

// Saturate implements Sender.
func (s TCPSender) Saturate(ctx context.Context, p *Path, flows int, d, margin time.Duration) (g Goodput, err error) {
	c := loop.Config{
		Op: loop.OpTCP, Kind: loop.Saturate, Local: p.Client, Peer: p.Server, Port: loop.FreePort(), Bytes: tcpBufferLen, Segment: segmentOf(p),
		Control: s.Control, Flows: flows, Seconds: d.Seconds(), Margin: margin.Seconds(),
	}
	out, err := Kernel{Path: s.Path}.both(ctx, p, c)
	if err != nil {
		return g, err
	}
	var r loop.Rates
	if err := json.Unmarshal(out, &r); err != nil {
		return g, fmt.Errorf("bench end: %w", err)
	}
	return newGoodput(r.Shares), nil
}

// RDMASender is softrdma: it WRITEs on one queue pair per flow, measured by
// `softrdma perf`.
type RDMASender struct {
	Softrdma
	Recovery string // loss recovery, "" for the default
}

// Name returns "softrdma" and the options that are not the default.
func (s RDMASender) Name() string {
	name := "softrdma"
	for _, choice := range []string{s.Congestion, s.Recovery} {
		if choice != "" {
			name += " " + choice
		}
	}
	return name
}

const (
	flowMessage = 16 << 10 // bytes of a message, short enough to count messages
	flowWindow  = 32 << 20 // outstanding bytes of all flows: several times what fits into the longest path

	// standardWindow is the same for the standard's recovery, which has at most 1 MiB in flight. All that is
	// outstanding has to arrive before the end, at a message in each round trip if many packets are lost.
	standardWindow = 2 << 20
)

// outstanding returns how many messages each flow posts ahead.
func (s RDMASender) outstanding(flows int) int {
	window := flowWindow
	if s.Recovery == congestion.GoBackN.String() {
		window = standardWindow
	}
	return max(window/flowMessage/flows, 1)
}

// Saturate implements Sender.
func (s RDMASender) Saturate(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error) {
	port := strconv.Itoa(int(loop.FreePort()))
	serve := []string{s.Path, "perf", "write", "bw", "-p", port, "-d", p.Server.String(), "--same-host", p.sameHostMode()}
	ask := []string{s.Path, "perf", "write", "bw", "-p", port, "-d", p.Client.String(), "--same-host", p.sameHostMode(), "--json", "-e", "-s", strconv.Itoa(flowMessage),
		"-t", strconv.Itoa(s.outstanding(flows)), "-q", strconv.Itoa(flows), "-D", fmt.Sprint(d.Seconds()), "--margin", fmt.Sprint(margin.Seconds())}
	if s.Congestion != "" {
		ask = append(ask, "--congestion", s.Congestion)
	}
	if s.Recovery != "" {
		ask = append(ask, "--recovery", s.Recovery)
	}
	out, err := p.run(ctx, "waiting", serve, append(ask, p.Server.String()))
	if err != nil {
		return Goodput{}, err
	}
	var r perfReport
	if err := json.Unmarshal(out, &r); err != nil || len(r.Bandwidth) != 1 || len(r.Bandwidth[0].Messages) != flows {
		return Goodput{}, fmt.Errorf("softrdma perf --json: expected one result of %d flows, found %d: %w", flows, len(r.Bandwidth), err)
	}
	b := r.Bandwidth[0]
	shares := make([]float64, flows)
	for i, n := range b.Messages {
		shares[i] = float64(n) * flowMessage * 8 / (d - 2*margin).Seconds()
	}
	g := newGoodput(shares)
	g.Counters = b.ClientCounters
	for name, n := range b.ServerCounters {
		if g.Counters == nil {
			g.Counters = make(map[string]uint64)
		}
		g.Counters[name] += n
	}
	return g, nil
}
