//go:build linux

package uverbs

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"softrdma/faults"
	"softrdma/verbs"
)

// A device on a share of an address has the rules of faults that the server's device has at that time, unless its program
// has chosen some.
func TestSharedDeviceHasTheRulesOfItsServer(t *testing.T) {
	s := newServer(t, "127.14.3.45")
	rules := faults.Rules{Seed: 5}
	for i := range 300 { // more than a message holds
		rules.Rules = append(rules.Rules, faults.Rule{Name: fmt.Sprint("rule ", i), Action: faults.Drop, Select: faults.Selector{Nth: uint64(i) + 1}})
	}
	own := faults.Rules{Rules: []faults.Rule{{Action: faults.Duplicate}}}
	of := func(cfg verbs.Config) faults.Rules {
		t.Helper()
		d, err := verbs.Open("shared:"+s.Socket(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		return d.Faults().Rules()
	}
	x := s.devices[0].Verbs.Faults()
	check := func(when string, want faults.Rules, cfg verbs.Config) {
		t.Helper()
		if d := cmp.Diff(want, of(cfg)); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	check("without rules", faults.Rules{}, verbs.Config{})
	if err := x.Set(rules); err != nil {
		t.Fatal(err)
	}
	check("with rules", rules, verbs.Config{})
	check("with its own", own, verbs.Config{Faults: &own})
	x.Clear()
	check("without them again", faults.Rules{}, verbs.Config{})
}
