package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"softrdma/bench/loop"
)

// Softrdma measures softrdma with `softrdma perf`, and many queue pairs with
// `bench scaling`.
type Softrdma struct {
	Path       string // of the command
	Bench      string // of this program, for many queue pairs
	Congestion string // congestion control, "" for the default
}

// Name returns "softrdma".
func (Softrdma) Name() string { return "softrdma" }

// Check returns nil: softrdma is always available.
func (Softrdma) Check() error { return nil }

// perfReport has the fields that are used from the output of `softrdma perf --json`.
type perfReport struct {
	Bandwidth []struct {
		Gbit   float64 `json:"bw_average_gbit_per_s"`
		Rate   float64 `json:"messages_per_s"`
		Client float64 `json:"client_cpu_s_per_gib"`
		Server float64 `json:"server_cpu_s_per_gib"`

		Messages       []int64           `json:"qp_iterations"`
		ClientCounters map[string]uint64 `json:"client_counters"`
		ServerCounters map[string]uint64 `json:"server_counters"`
	} `json:"bandwidth"`
	Latency []struct {
		P50 float64 `json:"typical_us"`
		P99 float64 `json:"p99_us"`
	} `json:"latency"`
}

// streamDepth returns the number of outstanding messages of a stream: few long ones,
// to save memory, and many short ones.
func streamDepth(bytes int) int { return max(16, min(2048, (1<<20)/bytes)) }

// Run implements Tool.
func (s Softrdma) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	if w.QPs > 0 {
		return s.scaling(ctx, p, w, d)
	}
	port := strconv.Itoa(int(loop.FreePort()))
	device := ""
	if w.Protocol != "" {
		device = w.Protocol + ":"
	}
	serve := []string{s.Path, "perf", w.Op, "bw", "-p", port, "-d", device + p.device(server), "--same-host", p.sameHostMode()}
	ask := []string{s.Path, "perf", w.Op, "bw", "-p", port, "-d", device + p.device(client), "--same-host", p.sameHostMode(), "--json", "-s", strconv.Itoa(w.Bytes),
		"-D", fmt.Sprintf("%.2f", d.Seconds())}
	if w.Kind == Ping {
		serve[3], ask[3] = "lat", "lat"
	} else {
		ask = append(ask, "-t", strconv.Itoa(streamDepth(w.Bytes)))
	}
	if w.MTU != 0 {
		ask = append(ask, "-m", strconv.Itoa(w.MTU))
	}
	if s.Congestion != "" && w.Protocol == "" {
		ask = append(ask, "--congestion", s.Congestion)
	}
	if w.Events {
		ask = append(ask, "-e")
	}
	if w.Memory != "" {
		ask = append(ask, "--memory", w.Memory)
	}
	out, err := s.ends(ctx, p, w, serve, append(ask, p.Server.String()))
	if err != nil {
		return Result{}, err
	}
	var r perfReport
	if err := json.Unmarshal(out, &r); err != nil {
		return Result{}, fmt.Errorf("softrdma perf --json: %w", err)
	}
	switch {
	case w.Kind == Stream && len(r.Bandwidth) == 1:
		b := r.Bandwidth[0]
		return Result{Result: loop.Result{Throughput: b.Gbit * 1e9 / 8, Rate: b.Rate, CPU: b.Client + b.Server}}, nil
	case w.Kind == Ping && len(r.Latency) == 1:
		return Result{Result: loop.Result{P50: r.Latency[0].P50, P99: r.Latency[0].P99}}, nil
	}
	return Result{}, fmt.Errorf("softrdma perf --json: expected one result, found %d and %d", len(r.Bandwidth), len(r.Latency))
}

// ends runs both ends of softrdma perf and returns what the client prints.
func (s Softrdma) ends(ctx context.Context, p *Path, w Work, serve, ask []string) (out []byte, err error) {
	if w.Observed {
		o, err := s.observe(ctx, p)
		if err != nil {
			return nil, err
		}
		out, err := p.run(ctx, "waiting", append(serve, o.metrics(server)), append(ask, o.metrics(client)))
		return out, errors.Join(err, o.stop())
	}
	return p.run(ctx, "waiting", serve, ask)
}
