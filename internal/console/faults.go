package console

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"softrdma/faults"
	"softrdma/faults/file"
	"softrdma/faults/scenarios"
	"softrdma/internal/control"
)

// A scenario is a scenario of faults.
type scenario struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	YAML    string `json:"yaml"`
}

func allScenarios() (all []scenario) {
	for _, name := range scenarios.Names() {
		text, _ := scenarios.Text(name)
		all = append(all, scenario{name, scenarios.Summary(name), string(text)})
	}
	return all
}

// scenarioRules returns the rules of a scenario.
func scenarioRules(name string) (faults.Rules, bool) {
	text, ok := scenarios.Text(name)
	if !ok {
		return faults.Rules{}, false
	}
	rules, err := file.Parse(name, text)
	return rules, err == nil
}

// deviceFaults is what a device has of faults.
type deviceFaults struct {
	control.Faults
	On []string `json:"on"` // scenarios all of whose rules the device has
}

func newDeviceFaults(f control.Faults) deviceFaults {
	d := deviceFaults{f, []string{}}
	for _, name := range scenarios.Names() {
		rules, _ := scenarioRules(name)
		missing := func(r faults.Rule) bool { return !slices.ContainsFunc(f.Rules, is(r)) }
		if len(rules.Rules) > 0 && !slices.ContainsFunc(rules.Rules, missing) {
			d.On = append(d.On, name)
		}
	}
	return d
}

// is returns a function that reports whether a rule of a device is a given one.
func is(r faults.Rule) func(control.Rule) bool {
	return func(x control.Rule) bool { return reflect.DeepEqual(x.Rule, r) }
}

func askFaults(r *http.Request, s control.Socket) (f control.Faults, err error) {
	return f, s.Ask(r.Context(), http.MethodGet, path(r, "faults"), nil, &f)
}

func getFaults(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	f, err := askFaults(r, s)
	if err != nil {
		return err
	}
	reply(w, newDeviceFaults(f))
	return nil
}

// setFaults changes the rules of a device, and replies with those that it has then.
func setFaults(w http.ResponseWriter, r *http.Request, s control.Socket, method string, rules *faults.Rules) error {
	var body []byte
	if rules != nil {
		var err error
		if body, err = json.Marshal(rules); err != nil {
			return err
		}
	}
	var after []control.Faults
	if err := s.Ask(r.Context(), method, path(r, "faults"), body, &after); err != nil {
		return err
	}
	return getFaults(w, r, s)
}

func clearFaults(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	return setFaults(w, r, s, http.MethodDelete, nil)
}

// switchScenario switches a scenario on or off. Other rules of the device stay.
func switchScenario(on bool) func(http.ResponseWriter, *http.Request, control.Socket) error {
	return func(w http.ResponseWriter, r *http.Request, s control.Socket) error {
		name := r.PathValue("scenario")
		rules, ok := scenarioRules(name)
		if !ok {
			control.Refuse(w, http.StatusNotFound, "scenario: expected one of %s, found %q", strings.Join(scenarios.Names(), ", "), name)
			return nil
		}
		f, err := askFaults(r, s)
		if err != nil {
			return err
		}
		if slices.Contains(newDeviceFaults(f).On, name) == on {
			return getFaults(w, r, s)
		}
		if on {
			return setFaults(w, r, s, http.MethodPost, &rules)
		}
		left := faults.Rules{Seed: f.Seed}
		for _, x := range f.Rules {
			if !slices.ContainsFunc(rules.Rules, func(r faults.Rule) bool { return is(r)(x) }) {
				left.Rules = append(left.Rules, x.Rule)
			}
		}
		return setFaults(w, r, s, http.MethodPut, &left)
	}
}
