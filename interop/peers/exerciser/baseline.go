package exerciser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// VerbsPeer is the exerciser over Debian's pyverbs, a Python program. It reads ScenariosJSON from a file beside it.
//
//go:embed testdata/verbs_peer.py
var VerbsPeer []byte

//go:embed testdata/rxe_baseline.json
var baselineJSON []byte

//go:embed testdata/differences.json
var differencesJSON []byte

//go:embed testdata/siw_baseline.json
var siwBaselineJSON []byte

//go:embed testdata/siw_differences.json
var siwDifferencesJSON []byte

// Results are results by scenario and role.
type Results map[string]map[string]Result

// baseline is what Linux's devices did with themselves: testdata/rxe_baseline.json and testdata/siw_baseline.json.
type baseline struct {
	Kernel  string   `json:"kernel"`
	Results []Result `json:"results"`
}

// Baseline returns what rxe against rxe did.
func Baseline() (Results, error) { return readBaseline("rxe_baseline.json", baselineJSON) }

// SiwBaseline returns what siw against siw did.
func SiwBaseline() (Results, error) { return readBaseline("siw_baseline.json", siwBaselineJSON) }

func readBaseline(file string, content []byte) (Results, error) {
	var b baseline
	if err := json.Unmarshal(content, &b); err != nil {
		return nil, fmt.Errorf("testdata/%s: %w", file, err)
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

// difference is a scenario in which softrdma and Linux act differently, and why that is right.
type difference struct {
	Scenario string    `json:"scenario"`
	Softrdma []string  `json:"softrdma"` // the roles of softrdma that it concerns
	Reason   string    `json:"reason"`
	Client   *override `json:"client"`
	Server   *override `json:"server"`
}

// override replaces the fields of the baseline that are not nil. The hash "any" matches all. A status may list several,
// separated by |, with MISSING among them. A refusal may be PERHAPS.
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
	return all, all.differ("differences.json", differencesJSON, softrdma)
}

// None is the role when siw is at both ends, instead of softrdma's roles. Its results vary.
const None = "nobody"

// ExpectedWithSiw is Expected with siw in the place of rxe.
func ExpectedWithSiw(softrdma ...string) (Results, error) {
	all, err := SiwBaseline()
	if err != nil {
		return nil, err
	}
	for _, ends := range all {
		// siw reports no state, so the baseline has RESET. softrdma's queue pair is in ERR if anything failed.
		state := "RTS"
		for _, r := range ends {
			if slices.ContainsFunc(slices.Concat(r.Send, r.Recv), func(c Completion) bool { return c.Status != "SUCCESS" }) {
				state = "ERR"
			}
		}
		for _, role := range softrdma {
			if role == None {
				continue
			}
			r := ends[role]
			r.State = state
			ends[role] = r
		}
	}
	return all, all.differ("siw_differences.json", siwDifferencesJSON, softrdma)
}

// differ applies the known differences if softrdma plays some roles.
func (all Results) differ(file string, content []byte, softrdma []string) error {
	var differences []difference
	decode := json.NewDecoder(strings.NewReader(string(content)))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&differences); err != nil {
		return fmt.Errorf("testdata/%s: %w", file, err)
	}
	for _, d := range differences {
		if all[d.Scenario] == nil {
			return fmt.Errorf("testdata/%s names the scenario %q, which the baseline does not have", file, d.Scenario)
		}
		if !slices.ContainsFunc(d.Softrdma, func(role string) bool { return slices.Contains(softrdma, role) }) {
			continue
		}
		client, server := all[d.Scenario][Client], all[d.Scenario][Server]
		d.Client.apply(&client)
		d.Server.apply(&server)
		all[d.Scenario][Client], all[d.Scenario][Server] = client, server
	}
	return nil
}

// Comparable returns both results without the fields that are not compared: the network header of a datagram, the text
// of a refusal, and a hash that may be any.
func Comparable(want, got Result) (Result, Result) {
	want.Refused = slices.DeleteFunc(slices.Clone(want.Refused), func(may Refusal) bool {
		return may.Error == perhaps && !slices.ContainsFunc(got.Refused, func(r Refusal) bool { return r.Step == may.Step })
	})
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
	var lost bool
	if want.Send, lost = chosen(want.Send, got.Send); lost {
		want.Missing = append(slices.Clone(want.Missing), "send")
	}
	if want.Recv, lost = chosen(want.Recv, got.Recv); lost {
		want.Missing = append(slices.Clone(want.Missing), "recv")
	}
	return want, got
}

// perhaps is the text of an optional refusal.
const perhaps = "PERHAPS"

// missing is among the statuses of an optional completion. If that is missing, its poll reports so.
const missing = "MISSING"

// chosen replaces expected completions that list several statuses by the ones that were found. It drops the last one,
// and reports lost, if that is optional and has not come.
func chosen(want, got []Completion) (list []Completion, lost bool) {
	list = slices.Clone(want)
	for i := range want {
		may := strings.Split(want[i].Status, "|")
		switch {
		case len(may) == 1:
		case i < len(got) && want[i].WR == got[i].WR && slices.Contains(may, got[i].Status):
			list[i] = got[i]
		case i == len(got) && i == len(want)-1 && slices.Contains(may, missing):
			return list[:i], true
		}
	}
	return list, false
}
