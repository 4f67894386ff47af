package compare

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/bench/loop"
)

// A fake returns prepared results, one per round.
type fake struct {
	name    string
	results map[string][]Result // by operation
	missing error
	asked   []Work
}

func (f *fake) Name() string { return f.name }
func (f *fake) Check() error { return f.missing }
func (f *fake) Run(_ context.Context, _ *Path, w Work, _ time.Duration) (Result, error) {
	f.asked = append(f.asked, w)
	r := f.results[w.Op]
	if len(r) == 0 {
		return Result{}, errors.New("out of order")
	}
	f.results[w.Op] = r[1:]
	return r[0], nil
}

func fakeFigures() []Figure {
	a, b := Work{Tool: "a", Op: "x"}, Work{Tool: "b", Op: "y"}
	return []Figure{
		{Name: "throughput", Of: Measure{a, Throughput}, Against: Measure{b, Throughput}, Gate: .5, Stretch: 2},
		{Name: "latency", Of: Measure{a, P50}, Against: Measure{b, P50}, Less: true, Gate: 1, Stretch: .1},
	}
}

func TestRunComputesRatiosWithinRounds(t *testing.T) {
	// The machine is three times as fast in the second round.
	a := &fake{name: "a", results: map[string][]Result{"x": {{Result: loop.Result{Throughput: 1e9, P50: 3}}, {Result: loop.Result{Throughput: 3e9, P50: 1}}, {Result: loop.Result{Throughput: 1e9, P50: 3}}}}}
	b := &fake{name: "b", results: map[string][]Result{"y": {{Result: loop.Result{Throughput: 2e9, P50: 6}}, {Result: loop.Result{Throughput: 6e9, P50: 2}}, {Result: loop.Result{Throughput: 2e9, P50: 6}}}}}
	r := Run{Path: Loopback(), Tools: []Tool{a, b}, Figures: fakeFigures(), Rounds: 3}
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(a.asked) != 3 || len(b.asked) != 3 {
		t.Errorf("measured %d and %d times, want 3: figures share measurements", len(a.asked), len(b.asked))
	}
	for _, row := range got.Rows {
		if !slices.Equal(row.Ratios, []float64{.5, .5, .5}) || row.Ratio != .5 || row.Missing != "" {
			t.Errorf("%s: ratios %v, median %v, missing %q", row.Name, row.Ratios, row.Ratio, row.Missing)
		}
	}
	if row := got.Rows[0]; row.Of != 3 || row.Against != 6 || row.Unit != "GB/s" { // of the middle round of three equal ones
		t.Errorf("%v against %v %s, want 3 against 6 GB/s", row.Of, row.Against, row.Unit)
	}
	if f := &got.Rows[0].Figure; !f.Reached(.5, f.Gate) || f.Reached(.5, f.Stretch) {
		t.Error("more is better: .5 reaches .5 and not 2")
	}
	if f := &got.Rows[1].Figure; !f.Reached(.5, f.Gate) || f.Reached(.5, f.Stretch) {
		t.Error("less is better: .5 reaches 1 and not .1")
	}
}

func TestRunAbsoluteFigures(t *testing.T) {
	a := &fake{name: "a", results: map[string][]Result{"x": {{Idle: .02}, {Idle: .005}, {Idle: .001}}}}
	f := Figure{Name: "idle", Of: Measure{Work{Tool: "a", Op: "x"}, Idleness}, Less: true, Gate: 1}
	r := Run{Path: Loopback(), Tools: []Tool{a}, Figures: []Figure{f}, Rounds: 3}
	got, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := got.Rows[0]
	of, against, ratio, span := row.Cells()
	if want := [4]string{"0.5 % of a core", "–", "–", "0.1–2"}; want != [4]string{of, against, ratio, span} || row.Verdict() != "gate" {
		t.Errorf("%q %q %q %q is %s, expected %q", of, against, ratio, span, row.Verdict(), want)
	}
}

func TestRunWakeupsHaveAGateOfZero(t *testing.T) {
	for verdict, found := range map[string]float64{"gate": 0, "below": 1} {
		a := &fake{name: "a", results: map[string][]Result{"x": {{Wakeups: found}}}}
		f := Figure{Name: "idle", Of: Measure{Work{Tool: "a", Op: "x"}, Wakeups}, Less: true}
		got, err := (&Run{Path: Loopback(), Tools: []Tool{a}, Figures: []Figure{f}, Rounds: 1}).Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if row := got.Rows[0]; row.Verdict() != verdict || row.Limit(row.Gate) != "≤ 0" {
			t.Errorf("%v wake-ups, limit %s: %s, expected %s", found, row.Limit(row.Gate), row.Verdict(), verdict)
		}
	}
}

func TestParseScalingConfigRefusesInvalidValues(t *testing.T) {
	for text, want := range map[string]string{
		`{"qps":0,"seconds":1}`:                "queue pairs: expected 1 to 1048576, found 0",
		`{"qps":2000000,"seconds":1}`:          "found 2000000",
		`{"qps":1,"bytes":-1,"seconds":1}`:     "bytes of a message",
		`{"qps":1,"bytes":1,"seconds":0}`:      "seconds: expected up to 3600, found 0",
		`{"qps":1,"bytes":1,"seconds":1,"x":}`: "configuration",
		`{"qps":1,"seconds":1,"other":1}`:      "other",
	} {
		if _, err := ParseScalingConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	c, err := ParseScalingConfig(`{"qps":3,"bytes":4096,"seconds":1}`)
	if err != nil || c.Flight() != scalingMessages || c.Depth() != scalingMessages/3 {
		t.Errorf("%d outstanding messages, %d per queue pair, %v", c.Flight(), c.Depth(), err)
	}
	if c.QPs = 1000_000; c.Depth() != 1 {
		t.Errorf("depth %d, expected 1", c.Depth())
	}
}

func TestRunReportsMissingAndFailingTools(t *testing.T) {
	a := &fake{name: "a", results: map[string][]Result{"x": {{Result: loop.Result{Throughput: 1}}}}}
	for _, c := range []struct {
		name  string
		tools []Tool
		want  string
	}{
		{"not installed", []Tool{a, &fake{name: "b", missing: errors.New("b is not installed")}}, "b is not installed"},
		{"fails", []Tool{a, &fake{name: "b"}}, "out of order"},
		{"not there", []Tool{a}, "b was not selected"},
	} {
		a.results["x"] = []Result{{Result: loop.Result{Throughput: 1}}}
		r := Run{Path: Loopback(), Tools: c.tools, Figures: fakeFigures(), Rounds: 1}
		got, err := r.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if missing := got.Rows[0].Missing; !strings.Contains(missing, c.want) {
			t.Errorf("%s: missing %q, want %q", c.name, missing, c.want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Run{Path: Loopback(), Figures: fakeFigures(), Rounds: 1}
	if _, err := r.Do(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestParseUCXReadsTheLastLine(t *testing.T) {
	const out = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n" +
		"500,1,1,1,1,1,1,1\n10000,5.657,154.094,1023.976,0.05,2.5,6490,977\n"
	if r, err := parseUCX(out, Ping); err != nil || r != (Result{Result: loop.Result{P50: 5.657}}) {
		t.Errorf("ping: %+v, %v", r, err)
	}
	if r, err := parseUCX(out, Stream); err != nil || r != (Result{Result: loop.Result{Throughput: 2.5 * (1 << 20), Rate: 977}}) {
		t.Errorf("stream: %+v, %v", r, err)
	}
	if _, err := parseUCX("no numbers", Stream); err == nil {
		t.Error("no error for a text without numbers")
	}
}

func TestFiguresUseExistingTools(t *testing.T) {
	tools := map[string]bool{
		"softrdma": true, "kernel": true, "iperf3": true, "UCX-TCP": true, "UCX-shared": true,
		RawMemoryName: true, RDMANetName: true, MessagesName: true, CallsName: true, NetRPCName: true, ExecName: true,
		ProgramName: true, ProgramUCXName: true, MPIName: true, MPITCPName: true, MPIHostName: true, CollectiveName: true, PresenceName: true,
		FabricName: true, TrunkName: true,
	}
	for _, tool := range CallTools("") {
		tools[tool.Name()] = true
	}
	for _, figures := range [][]Figure{Figures(true), Figures(false), hostFigures()} {
		for _, f := range figures {
			for _, m := range f.measures() {
				if !tools[m.Work.Tool] {
					t.Errorf("%s: tool %q", f.Name, m.Work.Tool)
				}
			}
			if f.Gate != 0 && f.Reached(f.Gate, f.Stretch) {
				t.Errorf("%s: the gate %v is not easier than the stretch %v", f.Name, f.Gate, f.Stretch)
			}
		}
	}
}

// The medians of both columns may come from different rounds, and then give another ratio.
func TestRowShowsThePairOfItsRatio(t *testing.T) {
	for _, c := range []struct{ a, b []float64 }{
		{[]float64{1, 2, 3}, []float64{3, 1, 2}},
		{[]float64{4, 1, 2, 8}, []float64{1, 3, 2, 5}},
		{[]float64{7}, []float64{2}},
	} {
		var r Row
		r.compare(c.a, c.b, 10)
		if got := r.Of / r.Against; math.Abs(got-r.Ratio) > 1e-9 {
			t.Errorf("%v of %v: %v and %v give %v, beside the ratio %v", c.a, c.b, r.Of, r.Against, got, r.Ratio)
		}
		if r.Ratio < r.Low || r.Ratio > r.High {
			t.Errorf("%v of %v: ratio %v outside of %v to %v", c.a, c.b, r.Ratio, r.Low, r.High)
		}
	}
}
