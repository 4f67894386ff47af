package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/explain"
)

// numbered maps the words that messages print before a number to the kind of the
// number.
var numbered = map[string]explain.Kind{
	"reason": explain.Reject, "errno": explain.SystemError, "status": explain.Status, "event": explain.Event,
	"code": explain.ExitCode, "opcode": explain.PacketOp, "Terminate": explain.Terminate, "syndrome": explain.Syndrome,
	"operation": explain.Operation, "field": explain.RNRTimer, "attribute": explain.CMMessage, "space": explain.PortSpace,
	"vendor_err": explain.Reason, "type": explain.QPType, "state": explain.QPState,
}

// unnamed lists texts with a number that has no entry in explain, because the standards
// give it no name or the message explains it.
var unnamed = []string{
	"window of type %d",             // 1 and 2 are the names of the types
	"layer %d, type %d, code %#02x", // the parts of a Terminate code without a name
	"CM_MTU", "ECN field", "alternate path status", "SIDR status", "of Linux",
}

// explain knows every number that a message prints, unless the number is a quantity.
func TestExplainKnowsTheNumbersOfMessages(t *testing.T) {
	verb := regexp.MustCompile(`([A-Za-z_]+) \(?%#?[0-9]*[dx]`)
	kinds := []string{"reason", "errno", "status", "event", "code", "opcode", "syndrome", "operation", "attribute", "state", "type", "kind", "Terminate", "vendor_err", "transport"}
	byKind := map[explain.Kind]bool{}
	for n := range 300 {
		for _, hex := range []string{"%d", "%#x"} {
			found, _ := explain.Lookup(fmt.Sprintf(hex, n))
			for _, e := range found {
				byKind[e.Kind] = true
			}
		}
	}
	if found, err := explain.Lookup("0x2002"); err != nil || found[0].Kind != explain.Terminate {
		t.Errorf("0x2002: %v, %v, expected a Terminate code", found, err)
	}
	byKind[explain.Terminate], byKind[explain.PortSpace] = true, true
	seen := 0
	for _, x := range goTexts(t, filepath.Join("..", "..")) {
		if !strings.Contains(x.where, "/internal/") && !strings.Contains(x.where, "/verbs/") && !strings.Contains(x.where, "/rdmacm/") &&
			!strings.Contains(x.where, "/rdmanet/") && !strings.Contains(x.where, "/cmd/") {
			continue
		}
		for _, m := range verb.FindAllStringSubmatch(x.text, -1) {
			word := m[1]
			if !slices.Contains(kinds, word) || slices.ContainsFunc(unnamed, func(s string) bool { return strings.Contains(x.text, s) }) {
				continue
			}
			seen++
			if k, ok := numbered[word]; (!ok || !byKind[k]) && !fallback(x.where, x.text) {
				t.Errorf("%s: %q prints a number after %q that explain does not know", x.where, x.text, word)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d messages with such a number, expected more", seen)
	}
}

// fallback reports whether a text is what a String method returns for a value without a
// name: a kind and a number.
func fallback(where, text string) bool {
	return regexp.MustCompile(`^[A-Za-z ]+ %#?[0-9]*[dx]$`).MatchString(text)
}
