package exerciser

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fieldsOf are the fields that belong to each kind of step.
var fieldsOf = map[string][]string{
	"barrier": {}, "sleep": {"ms"}, "recv": {"wr", "sge"}, "local_inv": {"wr"}, "error_qp": {}, "destroy_qp": {},
	"send":    {"wr", "op", "sge", "flags", "roff", "key", "imm", "compare", "swap", "add", "qkey"},
	"bind_mw": {"wr", "type", "off", "len", "access"}, "poll": {"cq", "n", "ms"}, "drain": {"ms"},
}

func TestScenariosHaveOnlyKnownFields(t *testing.T) {
	decode := json.NewDecoder(strings.NewReader(string(ScenariosJSON)))
	decode.DisallowUnknownFields()
	var all []Scenario
	if err := decode.Decode(&all); err != nil {
		t.Fatal(err)
	}
	var loose []map[string]json.RawMessage
	if err := json.Unmarshal(ScenariosJSON, &loose); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, s := range all {
		if seen[s.Name] || !slices.Contains([]string{"RC", "UC", "UD"}, s.QP) {
			t.Errorf("%s: the name occurs twice, or there is no type %q", s.Name, s.QP)
		}
		seen[s.Name] = true
		for _, role := range []string{Client, Server} {
			var end struct{ Steps []map[string]any }
			if err := json.Unmarshal(loose[i][role], &end); err != nil {
				t.Fatal(err)
			}
			for n, step := range end.Steps {
				do, _ := step["do"].(string)
				fields, known := fieldsOf[do]
				if !known {
					t.Errorf("%s: %s: step %d does %q, which is nothing", s.Name, role, n, do)
				}
				for field := range step {
					if field != "do" && !slices.Contains(fields, field) {
						t.Errorf("%s: %s: step %d, %s, has the field %s", s.Name, role, n, do, field)
					}
				}
			}
		}
		// An end that misses a barrier waits for the other for a minute.
		if c, s1 := barriers(s.Client), barriers(s.Server); c != s1 {
			t.Errorf("%s: the client has %d barriers, the server %d", s.Name, c, s1)
		}
	}
}

func barriers(e End) (n int) {
	for _, s := range e.Steps {
		if s.Do == "barrier" {
			n++
		}
	}
	return n
}

func TestBaselineHasEveryScenario(t *testing.T) {
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for peer, p := range map[string]struct {
		expected func(...string) (Results, error)
		plays    func(*Scenario) bool
	}{
		"rxe": {Expected, func(s *Scenario) bool { return !s.OnlyIWARP() }},
		"siw": {ExpectedWithSiw, (*Scenario).OverIWARP},
	} {
		for _, roles := range [][]string{nil, {Client}, {Server}, {Client, Server}} {
			want, err := p.expected(roles...)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				for _, role := range []string{Client, Server} {
					if r := want[s.Name][role]; p.plays(&s) && (r.SHA256 == "" || r.State == "") {
						t.Errorf("%s, %s: no result of the %s", peer, s.Name, role)
					}
				}
			}
		}
	}
}

func TestComparableIgnoresOptionalResults(t *testing.T) {
	want := Result{
		Send:    []Completion{{WR: 1, Status: "SUCCESS"}, {WR: 2, Status: "WR_FLUSH_ERR|" + missing}},
		Refused: []Refusal{{Step: 2, Error: perhaps}},
	}
	for _, got := range []Result{
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}, {WR: 2, Status: "WR_FLUSH_ERR"}}},
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}}, Missing: []string{"send"}},
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}}, Missing: []string{"send"}, Refused: []Refusal{{Step: 2, Error: "not connected"}}},
	} {
		if w, g := Comparable(want, got); !reflect.DeepEqual(w, g) {
			t.Errorf("%v differs from %v", g, w)
		}
	}
	for _, got := range []Result{
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}}},
		{Missing: []string{"send"}},
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}}, Missing: []string{"send"}, Refused: []Refusal{{Step: 1}}},
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}, {WR: 2, Status: "SUCCESS"}}},
		{Send: []Completion{{WR: 1, Status: "SUCCESS"}, {WR: 2, Status: "WR_FLUSH_ERR"}}, Missing: []string{"send"}},
	} {
		if w, g := Comparable(want, got); reflect.DeepEqual(w, g) {
			t.Errorf("%v is taken for %v", g, want)
		}
	}
}
