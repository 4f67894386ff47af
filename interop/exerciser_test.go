//go:build interop && linux

package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// difference is where softrdma and rxe are known to act differently in a scenario, and why that is right.
type difference struct {
	Scenario string    `json:"scenario"`
	Softrdma []string  `json:"softrdma"` // the roles of softrdma that it concerns
	Reason   string    `json:"reason"`
	Client   *override `json:"client"`
	Server   *override `json:"server"`
}

// override replaces the fields of the baseline that are not nil. The hash "any" means any.
type override struct {
	Send    *[]Completion `json:"send"`
	Recv    *[]Completion `json:"recv"`
	Refused *[]Refusal    `json:"refused"`
	SHA256  *string       `json:"sha256"`
	State   *string       `json:"state"`
}

const anyHash = "any"

func (o *override) apply(r *Result) {
	if o == nil {
		return
	}
	replace(&r.Send, o.Send)
	replace(&r.Recv, o.Recv)
	replace(&r.Refused, o.Refused)
	replace(&r.SHA256, o.SHA256)
	replace(&r.State, o.State)
}

func replace[T any](to *T, with *T) {
	if with != nil {
		*to = *with
	}
}

// loadDifferences reads testdata/differences.json.
func loadDifferences(t *testing.T) []difference {
	t.Helper()
	path := filepath.Join(sourceDir(), "testdata", "differences.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []difference
	decode := json.NewDecoder(strings.NewReader(string(content)))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&all); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return all
}

// expectations is the baseline with what differs when softrdma plays a role.
func expectations(t *testing.T, softrdma string) map[string]map[string]Result {
	t.Helper()
	want := loadBaseline(t)
	for _, d := range loadDifferences(t) {
		if !slices.Contains(d.Softrdma, softrdma) {
			continue
		}
		if want[d.Scenario] == nil {
			t.Errorf("differences.json names the scenario %q, which the baseline does not have", d.Scenario)
			continue
		}
		client, server := want[d.Scenario][Client], want[d.Scenario][Server]
		d.Client.apply(&client)
		d.Server.apply(&server)
		want[d.Scenario][Client], want[d.Scenario][Server] = client, server
	}
	return want
}

// withoutWording takes out of a pair what is not to be compared: how a refusal is worded, and a hash that may be any.
func withoutWording(want, got Result) (Result, Result) {
	for _, r := range []*Result{&want, &got} {
		var steps []Refusal
		for _, refusal := range r.Refused {
			steps = append(steps, Refusal{Step: refusal.Step})
		}
		r.Refused = steps
	}
	if want.SHA256 == anyHash {
		got.SHA256 = anyHash
	}
	return want, got
}

// exerciseSoftrdma runs scenarios with softrdma in a role and rxe in the other.
func exerciseSoftrdma(t *testing.T, softrdma string, v6 bool, take func(*Scenario) bool) {
	lab := openLab(t)
	soft := HostExerciser{lab, program(t, lab, "interop/peer")}
	rxe := RxeExerciser{lab.Guests[0]}
	names := scenarioNames(t, take)
	var server, client Exerciser = soft, rxe
	if softrdma == Client {
		server, client = rxe, soft
	}
	got, err := Exercise(within(t, 150*time.Second), server, client, names, v6, exerciseMTU)
	if err != nil {
		t.Error(err)
	}
	want := expectations(t, softrdma)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, role := range []string{Client, Server} {
				want, got := withoutWording(want[name][role], got[name][role])
				checkResult(t, want, got)
			}
		})
	}
}

func goldenScenario(s *Scenario) bool { return s.Golden }

func TestExerciserSoftrdmaServesRxe(t *testing.T) { exerciseSoftrdma(t, Server, false, everyScenario) }

func TestExerciserRxeServesSoftrdma(t *testing.T) { exerciseSoftrdma(t, Client, false, everyScenario) }

func TestExerciserSoftrdmaServesRxeIPv6(t *testing.T) {
	exerciseSoftrdma(t, Server, true, goldenScenario)
}

func TestExerciserRxeServesSoftrdmaIPv6(t *testing.T) {
	exerciseSoftrdma(t, Client, true, goldenScenario)
}
