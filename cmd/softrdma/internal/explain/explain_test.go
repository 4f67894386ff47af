package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
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
		out := clitest.Run(t, append([]string{"explain"}, c.args...)...)
		for _, want := range []string{c.name, "  cause: ", "  look at: ", "  remedy: "} {
			if !strings.Contains(out, want) {
				t.Errorf("explain %v: expected %q in\n%s", c.args, want, out)
			}
		}
	}
}

func TestExplainTakesNegativeNumbersAndLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-19"}, "ENODEV (errno of the operating system 19)"},
		{[]string{"-19", "--json"}, `"ENODEV"`},
		{[]string{"error", "-19:", "no", "device"}, "ENODEV ("},
		{[]string{"--", "-19"}, "ENODEV ("},
		{[]string{"Failed status 12: wr_id 0 syndrom 0x81"}, "IBV_WC_RETRY_EXC_ERR (completion status 12)"},
		{[]string{"syndrom", "0x81"}, "VENDOR_ERR_0x81 (vendor error 0x81)"},
	} {
		if out := clitest.Run(t, append([]string{"explain"}, c.args...)...); !strings.Contains(out, c.want) {
			t.Errorf("explain %v: expected %q in\n%s", c.args, c.want, out)
		}
	}
	clitest.Start(t, "explain", "-x", "-19").Fails(cli.ExitUsage, "-x")
}

func TestExplainListsAll(t *testing.T) {
	out := clitest.Run(t, "explain")
	for _, e := range explain.All() {
		if !strings.Contains(out, " "+e.Name+" ") {
			t.Errorf("%s is not listed", e.Name)
		}
	}
}

func TestExplainUnknownNamesTheNearest(t *testing.T) {
	clitest.Start(t, "explain", "PACKET_ICRK").Fails(cli.ExitFailed, `"PACKET_ICRK"`, "PACKET_ICRC", "lists all")
	clitest.Start(t, "explain", "zzzzzzzz", "yyyyyyyyy").Fails(cli.ExitFailed, `"zzzzzzzz yyyyyyyyy"`)
}

func TestExplainWrapsTextsWithoutLosingWords(t *testing.T) {
	for _, e := range explain.All() {
		text := e.String()
		out := wrap(text, outputWidth, fieldIndent)
		if got, want := strings.Fields(out), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("expected %q, found %q", want, got)
		}
		for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			if utf8.RuneCountInString(line) > outputWidth {
				t.Errorf("longer than %d: %q", outputWidth, line)
			}
			if i > 0 && (len(line) < fieldIndent || line[fieldIndent-1] != ' ' || line[fieldIndent] == ' ') {
				t.Errorf("the text does not start at column %d: %q", fieldIndent, line)
			}
		}
	}
}

func TestExplainPrintsJSON(t *testing.T) {
	var list []record
	if err := json.Unmarshal([]byte(clitest.Run(t, "explain", "--json", "28")), &list); err != nil {
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
	if err := json.Unmarshal([]byte(clitest.Run(t, "explain", "--json")), &list); err != nil || len(list) != len(explain.All()) {
		t.Errorf("all: %d entries, %v, expected %d", len(list), err, len(explain.All()))
	}
}

func TestExplainReadsALog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "job.log")
	text := "step 1\nFailed status 12: wr_id 0 syndrom 0x81\nFailed status 12: wr_id 1 syndrom 0x81\nFailed status 12: wr_id 0 and status 10\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(args ...string) *clitest.Process {
		p := clitest.Prepare(t, append([]string{"explain"}, args...)...)
		f, err := os.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		p.Cmd.Stdin = f
		p.Start()
		return p
	}
	out := with().Succeeds()
	for _, want := range []string{"lines 2, 3: Failed status 12: wr_id 0 syndrom 0x81\nIBV_WC_RETRY_EXC_ERR (completion status 12)\n  meaning:", "\nline 4: ", "status 12): see above\n", "IBV_WC_REM_ACCESS_ERR"} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q in\n%s", want, out)
		}
	}
	var found []finding
	if err := json.Unmarshal([]byte(with("-", "--json").Succeeds()), &found); err != nil || len(found) != 2 || found[0].Count != 2 || found[0].Entries[0].Number != 12 {
		t.Errorf("found %+v, %v", found, err)
	}
	if out := with("--list").Succeeds(); !strings.Contains(out, "PACKET_ICRC") {
		t.Errorf("--list prints %s", out)
	}
	with("--list", "x").Fails(cli.ExitUsage, `"x"`)
	if out := with("28").Succeeds(); !strings.Contains(out, "CONSUMER_REJECT") {
		t.Errorf("28 with a log prints %s", out)
	}
	if err := os.WriteFile(log, []byte("all is well\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := with().Succeeds(); !strings.Contains(out, "None of the 1 lines") {
		t.Errorf("a log without failures: %s", out)
	}
	if err := os.Truncate(log, 0); err != nil {
		t.Fatal(err)
	}
	if out := with().Succeeds(); !strings.Contains(out, "PACKET_ICRC") {
		t.Errorf("with an empty file it prints %s, expected all names", out)
	}
}
