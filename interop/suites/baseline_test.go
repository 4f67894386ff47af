//go:build interop && linux

package suites

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"softrdma/interop/peers"
	"softrdma/interop/peers/exerciser"
)

var updateBaseline = flag.Bool("update-baseline", false, "record testdata/rxe_baseline.json and siw_baseline.json again")

// exerciseMTU is the path MTU of the scenarios that do not say.
const exerciseMTU = 1024

// writeBaseline writes one result a line, so that diffs are short.
func writeBaseline(t *testing.T, file, kernel string, names []string, got exerciser.Results) {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(`{"kernel": "` + kernel + `", "results": [`)
	separator := "\n"
	for _, name := range names {
		for _, role := range []string{exerciser.Client, exerciser.Server} {
			r := got[name][role]
			r.GRH = ""
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(separator)
			out.Write(line)
			separator = ",\n"
		}
	}
	out.WriteString("\n]}\n")
	if err := os.WriteFile(filepath.Join("../peers/exerciser/testdata", file), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// scenarioNames returns the names of the scenarios that a filter accepts, in order.
func scenarioNames(t *testing.T, take func(*exerciser.Scenario) bool) []string {
	t.Helper()
	all, err := exerciser.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range all {
		if take(&all[i]) {
			names = append(names, all[i].Name)
		}
	}
	return names
}

// everyScenario accepts the scenarios that Soft RoCE can run.
func everyScenario(s *exerciser.Scenario) bool { return !s.OnlyIWARP() }

// checkResult compares a result with the expected one.
func checkResult(t *testing.T, want, got exerciser.Result) {
	t.Helper()
	if got.Scenario == "" {
		t.Errorf("%s: no result", want.Role)
		return
	}
	want, got = exerciser.Comparable(want, got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -expected +found\n%s", want.Role, diff)
	}
}

// checkResults compares the results of scenarios.
func checkResults(t *testing.T, names []string, want, got exerciser.Results) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, role := range []string{exerciser.Client, exerciser.Server} {
				if want[name][role].Scenario == "" {
					t.Fatalf("the baseline has no %s; record it with -update-baseline", role)
				}
				checkResult(t, want[name][role], got[name][role])
			}
		})
	}
}

func TestBaselineRxeAgainstRxe(t *testing.T) {
	l := openLab(t)
	names := scenarioNames(t, everyScenario)
	got, err := peers.Exercise(within(t, 8*time.Minute), peers.Rxe{Guest: l.Guests[1]}, peers.Rxe{Guest: l.Guests[0]}, names, false, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	if *updateBaseline {
		if t.Failed() {
			t.Fatal("not recorded")
		}
		writeBaseline(t, "rxe_baseline.json", l.Kernel.Version, names, got)
		return
	}
	want, err := exerciser.Baseline()
	if err != nil {
		t.Fatal(err)
	}
	checkResults(t, names, want, got)
}
