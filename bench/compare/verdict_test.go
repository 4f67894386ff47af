package compare

import (
	"strings"
	"testing"
	"time"

	"softrdma/bench/loop"
)

func TestWordsCompareWithThePeer(t *testing.T) {
	one, other := Work{Tool: "a"}, Work{Tool: "b"}
	for _, c := range []struct {
		metric           Metric
		against          Work
		less             bool
		ratio, low, high float64
		want             string
	}{
		{Throughput, other, false, 2, 1.9, 2.1, "faster, 2 ×"},
		{Throughput, other, false, .5, .4, .6, "slower, 2 ×"},
		{Throughput, other, false, 156.9, 150, 160, "faster, 157 ×"},
		{P50, other, true, .25, .2, .3, "faster, 4 ×"},
		{P50, other, true, 2.5, 2, 3, "slower, 2.5 ×"},
		{CPU, other, true, 2, 1.9, 2.1, "more, 2 ×"},
		{CPU, other, true, .5, .4, .6, "less, 2 ×"},
		{Throughput, other, false, 1.04, 1.03, 1.05, "about the same"},
		{Throughput, other, false, 1.5, .9, 2, "about the same"},
		{P99, one, true, 2, 2, 2, ""},
	} {
		r := Row{Figure: Figure{Of: Measure{one, c.metric}, Against: Measure{c.against, c.metric}, Less: c.less}, Ratio: c.ratio, Low: c.low, High: c.high}
		if got := r.Words(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := (&Row{Missing: "x"}).Words(); got != "not measured" {
		t.Error(got)
	}
}

func TestPartsOfAFigureAreItsNameAndThePeer(t *testing.T) {
	for name, want := range map[string][2]string{
		"1 MiB WRITE, of iperf3 with cubic":             {"1 MiB WRITE", "iperf3 with cubic"},
		"ib_write_lat 8 B, an exec each, of one daemon": {"ib_write_lat 8 B, an exec each", "one daemon"},
		"wake-ups of an idle device":                    {"wake-ups of an idle device", ""},
	} {
		what, peer := (&Figure{Name: name}).Parts()
		if got := [2]string{what, peer}; got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestPageNamesItsOrigin(t *testing.T) {
	o := &Origin{"host<1>", "linux/amd64, 2 processors", time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC), "v1", "bench --html x"}
	var b strings.Builder
	if err := WriteHTML(&b, o, false, nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := "host&lt;1&gt; (linux/amd64, 2 processors), 2030-01-02 03:04 UTC, softrdma v1: bench --html x"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, &b)
	}
}

func TestTablesGrowWithEachRound(t *testing.T) {
	result := Result{Result: loop.Result{Throughput: 1, P50: 1}}
	a := &fake{name: "a", results: map[string][]Result{"x": {result, result}}}
	b := &fake{name: "b", results: map[string][]Result{"y": {result, result}}}
	var rounds []int
	r := Run{Path: Loopback(), Tools: []Tool{a, b}, Figures: fakeFigures(), Rounds: 2, Report: func(t *Table) { rounds = append(rounds, t.Rounds*100+len(t.Rows)) }}
	if _, err := r.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := len(fakeFigures())
	if len(rounds) != 2 || rounds[0] != 100+n || rounds[1] != 200+n {
		t.Errorf("tables of %v", rounds)
	}
}
