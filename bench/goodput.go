package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"softrdma/internal/congestion"
)

// A Goodput is what some flows carry together once they have grown: bytes that
// the receiver's program has, without headers, copies and repetitions.
type Goodput struct {
	Bits     float64           `json:"bits_per_s"`
	Shares   []float64         `json:"shares_bits_per_s,omitempty"` // of each flow
	Counters map[string]uint64 `json:"counters,omitempty"`          // what the ends counted, by reason
}

func newGoodput(shares []float64) (g Goodput) {
	g.Shares = shares
	for _, s := range shares {
		g.Bits += s
	}
	return g
}

// Fairness is Jain's index of the shares.
func (g *Goodput) Fairness() float64 { return congestion.Jain(g.Shares) }

// A Sender pours through a path what it can. Pour starts both ends, lets so
// many flows run for the time, of which the margins at either end do not count,
// and leaves no process behind.
type Sender interface {
	Name() string
	Lack() error // why it cannot run here, nil where it can
	Pour(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error)
}

// TCPSender is the kernel's TCP with a control of congestion. Both ends are the
// command again, as `softrdma bench end`.
type TCPSender struct {
	Path    string // of the command
	Control string
}

// Name is the control's, behind "TCP".
func (s TCPSender) Name() string { return "TCP " + s.Control }

// Lack tells whether the kernel has the control.
func (s TCPSender) Lack() error { return lackControl(s.Control) }

// pourBytes is how much a TCP end writes or reads at a time.
const pourBytes = 64 << 10

// Pour implements Sender.
func (s TCPSender) Pour(ctx context.Context, p *Path, flows int, d, margin time.Duration) (g Goodput, err error) {
	c := EndConfig{
		Op: OpTCP, Kind: Pour, Local: p.Client, Peer: p.Server, Port: freePort(), Bytes: pourBytes, Segment: segmentOf(p),
		Control: s.Control, Flows: flows, Seconds: d.Seconds(), Margin: margin.Seconds(),
	}
	out, err := Kernel{Path: s.Path}.both(ctx, p, c)
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(out, &g); err != nil {
		return g, fmt.Errorf("bench end: %w", err)
	}
	return g, nil
}

// RDMASender is softrdma: WRITEs on a queue pair for each flow, measured by its
// own command's perf.
type RDMASender struct {
	Softrdma
	Recovery string // of losses, "" for the default
}

// Name tells the choices that are not the default's.
func (s RDMASender) Name() string {
	name := "softrdma"
	for _, choice := range []string{s.Congestion, s.Recovery} {
		if choice != "" {
			name += " " + choice
		}
	}
	return name
}

// The messages of a flow: so many under way that they fill any window, so short
// that counting them is fine enough.
const (
	flowMessage = 16 << 10
	flowUnder   = 8 << 20 // bytes of one flow, shared by several
)

// Pour implements Sender.
func (s RDMASender) Pour(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error) {
	port := strconv.Itoa(int(freePort()))
	serve := []string{s.Path, "perf", "write", "bw", "-p", port, "-d", p.Server.String()}
	ask := []string{s.Path, "perf", "write", "bw", "-p", port, "-d", p.Client.String(), "--json", "-e", "-s", strconv.Itoa(flowMessage),
		"-t", strconv.Itoa(flowUnder / flowMessage / flows), "-q", strconv.Itoa(flows), "-D", fmt.Sprint(d.Seconds()), "--margin", fmt.Sprint(margin.Seconds())}
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
