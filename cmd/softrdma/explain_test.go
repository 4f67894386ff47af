package main

import (
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
