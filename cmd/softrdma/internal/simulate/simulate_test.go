package simulate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/simulate"
)

// run runs the command in this process.
func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	cmd := NewCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&b)
	cmd.SetErr(io.Discard)
	err = cmd.ExecuteContext(t.Context())
	return b.String(), err
}

const small = `title: A small one
about: Two variants & their plots.
topology: star:4
duration: 100us
limit: 10ms
switch: {buffer: 100KiB, mark: {min: 10KiB, max: 30KiB, most: 0.5}}
traffic:
  - {kind: incast, to: 0, size: 50kB}
  - {kind: stream, from: [1, 2], to: 3}
variants:
  - {name: with PFC, switch: {pfc: true}}
  - {name: <lossy>}
papers: [{what: a figure, figure: 1, ours: 2}]
`

func writeScenario(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSimulatePrintsTablesJSONAndPage(t *testing.T) {
	path := writeScenario(t, small)
	page, list := filepath.Join(t.TempDir(), "r.html"), filepath.Join(t.TempDir(), "m.csv")
	out, err := run(t, path, "--html", page, "--messages", list, "--seeds", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A small one\nstar:4, 4 hosts, seeds 0 to 1\n", "SLOWDOWN p50", "with PFC", "<lossy>", "≤ 50 kB", "FAIRNESS", "QUEUE p50", "a figure: 1\n2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>A small one</h1>", "Two variants &amp; their plots.", "&lt;lossy&gt;", "Slowdown of messages, incast", "Rates of streams, with PFC", "Longest queue of a switch", "Fairness of the streams&#39; rates", `<td class="n">`} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, wrong := range []string{"<lossy>", "NaN", "Inf"} {
		if bytes.Contains(html, []byte(wrong)) {
			t.Errorf("%q in the page", wrong)
		}
	}
	if each, err := os.ReadFile(list); err != nil || bytes.Count(each, []byte("\n")) != 1+2*2*3 || !bytes.HasPrefix(each, []byte(`variant,seed,traffic,from,to,bytes,start_ns,time_ns,ideal_ns
with PFC,0,incast,1,0,50000,0.000,`)) {
		t.Errorf("messages %q, %v", each, err)
	}
	again, err := run(t, path, "--json", "--seeds", "2", "--seed", "0")
	if err != nil {
		t.Fatal(err)
	}
	var x simulate.Summary
	if err := json.Unmarshal([]byte(again), &x); err != nil || len(x.Variants) != 2 || x.Seeds != 2 || x.Variants[0].Messages.Finished != 6 || len(x.Variants[0].Streams) != 2 {
		t.Errorf("%+v, %v", x, err)
	}
	if other, err := run(t, path, "--json", "--seeds", "2", "--seed", "0"); err != nil || other != again {
		t.Errorf("the same seeds give other bytes: %v", err)
	}
}

func TestSimulateListsAndShowsScenarios(t *testing.T) {
	list, err := run(t, "--list")
	if err != nil || !strings.Contains(list, "incast") {
		t.Errorf("%s, %v", list, err)
	}
	text, err := run(t, "--show", "incast")
	if err != nil || !strings.HasPrefix(text, "title: ") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestSimulateRefusals(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{nil, "expected one SCENARIO, a file or a name of --list; found none"},
		{[]string{"nothing"}, `expected a file or one of `},
		{[]string{writeScenario(t, "topology: star:4\nduratoin: 1ms\n")}, `s.yaml:2:1: field "duratoin": expected one of title`},
		{[]string{"incast", "--seeds", "0"}, "--seeds: expected 1 to 10000, found 0"},
		{[]string{"--show", "nothing"}, "--show: expected one of "},
		{[]string{"--list", "incast"}, "expected no argument"},
	} {
		_, err := run(t, x.args...)
		if err == nil || !strings.Contains(err.Error(), x.want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%v: %v, exit code %d, expected %s", x.args, err, cli.ExitCode(err), x.want)
		}
	}
}

// A report that cannot be written is refused before the simulation.
func TestSimulateChecksTheReportFirst(t *testing.T) {
	path := writeScenario(t, "topology: star:4\nduration: 1h\nsample: 1m\ntraffic: [{kind: stream, from: 0, to: 1}]\n")
	if _, err := run(t, path, "--html", filepath.Join(t.TempDir(), "none", "r.html")); err == nil || !strings.Contains(err.Error(), "r.html") {
		t.Error(err)
	}
}

// A plot is well-formed and finite for any values.
func TestPlotsOfAnyValues(t *testing.T) {
	for _, points := range [][]simulate.Point{
		nil, {{X: 0, Y: 0}}, {{X: 1, Y: 1}, {X: 1, Y: 5}}, {{X: 1e-12, Y: 0}, {X: 1e12, Y: 1e300}}, {{X: 3, Y: 2}, {X: 4, Y: 2}},
	} {
		for _, log := range []bool{false, true} {
			p := plot{title: "a < b", x: "x", y: "y", logX: log, logY: log, dots: log, curves: []simulate.Series{{Name: "c & d", Points: points}}}
			text := string(p.svg())
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "<text") > 60 {
				t.Errorf("%v: %s", points, text)
			}
			for d := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v: %v", err, text)
				}
			}
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, high := range []float64{1, 3, 7, 10, 99, 12345, 1e-6} {
		a := axis{high: high}
		n := len(a.ticks())
		if n < 4 || n > 12 {
			t.Errorf("%d ticks up to %v: %v", n, high, a.ticks())
		}
	}
	if a := (axis{low: 0, high: 1, log: true}); len(a.ticks()) != 4 || a.ticks()[2] != 5 {
		t.Errorf("%v", a.ticks())
	}
	if a := (axis{low: 0, high: 2, log: true}); len(a.ticks()) != 3 || math.Abs(a.ticks()[2]-100) > 1e-9 {
		t.Errorf("%v", a.ticks())
	}
}

// A curve ends with the slowest message, however many there are.
func TestCurveHasTheSlowestMessage(t *testing.T) {
	for _, n := range []int{1, 500, 501, 999, 1499} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		c := share("x", values)
		if last := c.Points[len(c.Points)-1]; last.X != float64(n-1) || last.Y != 1 || len(c.Points) > 2*maxPoints {
			t.Errorf("%d values: %d points, the last is %+v", n, len(c.Points), last)
		}
	}
}
