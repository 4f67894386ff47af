package interop

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed testdata/rxe_baseline.json
var baselineJSON []byte

//go:embed testdata/differences.json
var differencesJSON []byte

// Results are results by scenario and role.
type Results map[string]map[string]Result

// baseline is what rxe against rxe did: testdata/rxe_baseline.json.
type baseline struct {
	Kernel  string   `json:"kernel"`
	Results []Result `json:"results"`
}

// Baseline returns what rxe against rxe did.
func Baseline() (Results, error) {
	var b baseline
	if err := json.Unmarshal(baselineJSON, &b); err != nil {
		return nil, fmt.Errorf("testdata/rxe_baseline.json: %w", err)
	}
	all := Results{}
	for _, r := range b.Results {
		if all[r.Scenario] == nil {
			all[r.Scenario] = map[string]Result{}
		}
		all[r.Scenario][r.Role] = r
	}
	return all, nil
}

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

// Expected returns the results that are right when softrdma plays the given roles and rxe the others: the baseline, and
// what testdata/differences.json says of these roles.
func Expected(softrdma ...string) (Results, error) {
	all, err := Baseline()
	if err != nil {
		return nil, err
	}
	var differences []difference
	decode := json.NewDecoder(strings.NewReader(string(differencesJSON)))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&differences); err != nil {
		return nil, fmt.Errorf("testdata/differences.json: %w", err)
	}
	for _, d := range differences {
		if all[d.Scenario] == nil {
			return nil, fmt.Errorf("testdata/differences.json names the scenario %q, which the baseline does not have", d.Scenario)
		}
		if !slices.ContainsFunc(d.Softrdma, func(role string) bool { return slices.Contains(softrdma, role) }) {
			continue
		}
		client, server := all[d.Scenario][Client], all[d.Scenario][Server]
		d.Client.apply(&client)
		d.Server.apply(&server)
		all[d.Scenario][Client], all[d.Scenario][Server] = client, server
	}
	return all, nil
}

// Comparable returns both results without what is not to be compared: the network header of a datagram, how a refusal is
// worded, and a hash that may be any.
func Comparable(want, got Result) (Result, Result) {
	for _, r := range []*Result{&want, &got} {
		r.GRH = ""
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
