package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"softrdma/internal/explain"
)

func TestExplainFindsByNameNumberAndWords(t *testing.T) {
	for _, c := range []struct {
		args []string
		name string
	}{
		{[]string{"IBV_WC_RETRY_EXC_ERR"}, "IBV_WC_RETRY_EXC_ERR (completion status 12)"},
		{[]string{"12"}, "IBV_WC_RETRY_EXC_ERR (completion status 12)"},
		{[]string{"retry", "exceeded"}, "RETRY_EXCEEDED (reason)"},
		{[]string{"0x62"}, "NAK_REMOTE_ACCESS_ERROR (acknowledge syndrome 0x62)"},
		{[]string{"IBV_EVENT_COMM_EST"}, "IBV_EVENT_COMM_EST (asynchronous event"},
		{[]string{"PACKET_ICRC", "KEY_BOUNDS"}, "KEY_BOUNDS (reason)"},
		{[]string{"PACKET_ICRC", "KEY_BOUNDS"}, "PACKET_ICRC (reason)"},
	} {
		out := run(t, append([]string{"explain"}, c.args...)...)
		for _, want := range []string{c.name, "  cause: ", "  look at: ", "  remedy: "} {
			if !strings.Contains(out, want) {
				t.Errorf("explain %v: expected %q in\n%s", c.args, want, out)
			}
		}
	}
}

func TestExplainListsAll(t *testing.T) {
	out := run(t, "explain")
	for _, e := range explain.All() {
		if !strings.Contains(out, " "+e.Name+" ") {
			t.Errorf("%s is not listed", e.Name)
		}
	}
}

func TestExplainUnknownNamesTheNearest(t *testing.T) {
	start(t, "explain", "PACKET_ICRK").fails(exitFailed, `"PACKET_ICRK"`, "PACKET_ICRC", "lists all")
	start(t, "explain", "zzzzzzzz", "yyyyyyyyy").fails(exitFailed, `"zzzzzzzz yyyyyyyyy"`)
}

func TestExplainWrapsTextsWithoutLosingWords(t *testing.T) {
	for _, e := range explain.All() {
		text := e.String()
		out := wrap(text, outputWidth, explainIndent)
		if got, want := strings.Fields(out), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("expected %q, found %q", want, got)
		}
		for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			if utf8.RuneCountInString(line) > outputWidth {
				t.Errorf("longer than %d: %q", outputWidth, line)
			}
			if i > 0 && (len(line) < explainIndent || line[explainIndent-1] != ' ' || line[explainIndent] == ' ') {
				t.Errorf("the text does not start at column %d: %q", explainIndent, line)
			}
		}
	}
}

func TestExplainPrintsJSON(t *testing.T) {
	var list []explainRecord
	if err := json.Unmarshal([]byte(run(t, "explain", "--json", "28")), &list); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, r := range list {
		if r.Meaning == "" || r.Clause == "" && r.Kind != "reason" {
			t.Errorf("%+v is not complete", r)
		}
		labels[r.Label] = r.Name
	}
	if labels["connection reject reason 28"] != "CONSUMER_REJECT" {
		t.Errorf("28 is %v, expected a reject reason among them", labels)
	}
	if err := json.Unmarshal([]byte(run(t, "explain", "--json")), &list); err != nil || len(list) != len(explain.All()) {
		t.Errorf("all: %d entries, %v, expected %d", len(list), err, len(explain.All()))
	}
}

// numbered are the words behind which messages print a number, with the kind of
// number that it is. What is "" is a quantity.
var numbered = map[string]explain.Kind{
	"reason": explain.Reject, "errno": explain.SystemError, "status": explain.Status, "event": explain.Event,
	"code": explain.ExitCode, "opcode": explain.PacketOp, "Terminate": explain.Terminate, "syndrome": explain.Syndrome,
	"operation": explain.Operation, "field": explain.RNRTimer, "attribute": explain.CMMessage, "space": explain.PortSpace,
	"vendor_err": explain.Reason, "type": explain.QPType, "state": explain.QPState,
}

// unnamed are texts with a number that the standards leave without a meaning, by
// what stands in them, and numbers that nobody sees but with their meaning.
var unnamed = []string{
	"window of type %d",             // 1 and 2 are the names of the types
	"layer %d, type %d, code %#02x", // a Terminate code in its parts, where it has no name
	"CM_MTU", "ECN field", "alternate path status", "SIDR status", "of Linux",
}

// Each number that a message prints and that is no quantity is one that explain
// knows.
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
				t.Errorf("%s: %q prints a number behind %q that explain does not know", x.where, x.text, word)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d messages with such a number, expected more", seen)
	}
}

// fallback reports whether a text is what a String method gives for a value that
// has no name: the whole of it is the kind and the number.
func fallback(where, text string) bool {
	return regexp.MustCompile(`^[A-Za-z ]+ %#?[0-9]*[dx]$`).MatchString(text)
}
