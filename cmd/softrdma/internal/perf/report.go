package perf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// A bandwidthResult is the result of a bandwidth test of one size. It is the sum of
// both directions.
type bandwidthResult struct {
	measure.Rate
	ClientCPU float64 `json:"client_cpu_s_per_gib"`
	ServerCPU float64 `json:"server_cpu_s_per_gib"`

	// Shares holds the iterations of each queue pair, the client's first.
	Shares         []int64           `json:"qp_iterations,omitempty"`
	ClientCounters map[string]uint64 `json:"client_counters,omitempty"` // of the whole run, by reason
	ServerCounters map[string]uint64 `json:"server_counters,omitempty"`
}

func newBandwidthResult(size int, client, server measure.FlowResult) bandwidthResult {
	r := bandwidthResult{
		Rate:   measure.Rate{Size: size},
		Shares: append(client.Counted, server.Counted...), ClientCounters: client.Counters, ServerCounters: server.Counters,
	}
	for _, n := range r.Shares {
		r.Iterations += n
	}
	for _, d := range []measure.FlowResult{client, server} {
		r.Add(d.Bytes, d.Seconds, d.Peak)
	}
	if gib := float64(client.Messages+server.Messages) * float64(size) / measure.GiB; gib > 0 {
		r.ClientCPU, r.ServerCPU = client.CPU/gib, server.CPU/gib
	}
	return r
}

// A report prints results: row by row, or with --json as one object at the end.
type report struct {
	out  io.Writer
	json bool
	rule string

	Operation     string                  `json:"operation"`
	Metric        string                  `json:"metric"`
	Bidirectional bool                    `json:"bidirectional"`
	Events        bool                    `json:"events"`
	QPs           int                     `json:"qps"`
	Depth         int                     `json:"depth"`
	MTU           int                     `json:"mtu"`
	Memory        measure.MemoryKind      `json:"memory"`
	Congestion    string                  `json:"congestion,omitempty"`
	Recovery      string                  `json:"recovery,omitempty"`
	Client        string                  `json:"client"`
	Server        string                  `json:"server"`
	Path          verbs.Path              `json:"path"`             // "network", "same host", "same process", "unknown"
	Reason        string                  `json:"reason,omitempty"` // why the path is not memory
	Bandwidth     []bandwidthResult       `json:"bandwidth,omitempty"`
	Latency       []measure.LatencyResult `json:"latency,omitempty"`
}

func newReport(cmd *cobra.Command, opt *options, client, server string, q *verbs.QP) *report {
	r := &report{
		out: cmd.OutOrStdout(), json: opt.json, Operation: opt.Operation, Metric: opt.Metric, Bidirectional: opt.Bidirectional,
		Events: opt.Events, QPs: opt.QPs, Depth: opt.Depth, MTU: q.Query().PathMTU, Client: client, Server: server, Path: q.Path(),
		Memory: cmp.Or(opt.Memory, measure.MemoryAlloc), Congestion: string(opt.Congestion), Recovery: string(opt.Recovery),
	}
	if why := verbs.ReasonError(nil); errors.As(q.WhyNetwork(), &why) {
		r.Reason = why.Reason()
	}
	if !r.json {
		r.title()
	}
	return r
}

// usualReasons are the reasons of most connections between hosts.
var usualReasons = []string{"HOST_UNPUBLISHED", "HOST_OFF", "HOST_TRANSPORT", "HOST_UNSUPPORTED"}

var titles = map[string]string{
	measure.OpWrite: "RDMA WRITE", measure.OpRead: "RDMA READ", measure.OpSend: "SEND", measure.OpAtomic: "Atomic FETCH_AND_ADD",
}

func (r *report) title() {
	kind, header := "bandwidth", measure.RateHeader
	if r.Metric == measure.MetricLatency {
		kind, header = "latency", measure.LatencyHeader
	}
	if r.Bidirectional {
		kind = "bidirectional " + kind
	}
	waiting := "polling"
	if r.Events {
		waiting = "events"
	}
	r.rule = strings.Repeat("-", len(header)+1)
	fmt.Fprintf(r.out, "%s\n%s %s test\n", r.rule, titles[r.Operation], kind)
	fmt.Fprintf(r.out, " client %s, server %s, RC, %d queue pairs, ", r.Client, r.Server, r.QPs)
	if r.Metric == measure.MetricBandwidth {
		fmt.Fprintf(r.out, "depth %d, ", r.Depth)
	}
	if r.MTU != 0 { // iWARP has TCP's segments instead
		fmt.Fprintf(r.out, "MTU %d, ", r.MTU)
	}
	fmt.Fprintf(r.out, "%s, path %s", waiting, r.Path)
	if r.Reason != "" && !slices.Contains(usualReasons, r.Reason) {
		fmt.Fprintf(r.out, " (%s)", r.Reason)
	}
	if r.Memory != measure.MemoryAlloc {
		fmt.Fprintf(r.out, ", %s memory", r.Memory)
	}
	if r.Congestion != "" {
		fmt.Fprintf(r.out, ", congestion control %s", r.Congestion)
	}
	if r.Recovery != "" {
		fmt.Fprintf(r.out, ", %s", r.Recovery)
	}
	fmt.Fprintf(r.out, "\n%s\n%s\n", r.rule, header)
}

func (r *report) bandwidth(b bandwidthResult) {
	r.Bandwidth = append(r.Bandwidth, b)
	r.row(b)
}

func (r *report) latency(l measure.LatencyResult) {
	r.Latency = append(r.Latency, l)
	r.row(l)
}

func (r *report) row(s fmt.Stringer) {
	if !r.json {
		fmt.Fprintln(r.out, s)
	}
}

// finish ends the report.
func (r *report) finish() error {
	if r.json {
		return cli.WriteJSON(r.out, r)
	}
	_, err := fmt.Fprintln(r.out, r.rule)
	if r.uninformed() {
		fmt.Fprintf(r.out, "No switch told how full its link is, so hpcc was a window: softrdma explain %v says why.\n", reason.CongestionUninformed)
	}
	return err
}

// uninformed reports whether an end's control was not the one that was asked for, since no telemetry came.
func (r *report) uninformed() bool {
	name := reason.CongestionUninformed.String()
	return slices.ContainsFunc(r.Bandwidth, func(b bandwidthResult) bool { return b.ClientCounters[name]+b.ServerCounters[name] > 0 })
}
