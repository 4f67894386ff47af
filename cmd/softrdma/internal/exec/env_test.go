package exec

import (
	"encoding/json"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestFormatsQuoteValues(t *testing.T) {
	variables := []string{"A=x", `B=it's "\ $HOME`, "C="}
	for f, want := range map[format]string{
		"sh":     "export A='x'\nexport B='it'\\''s \"\\ $HOME'\nexport C=''\n",
		"fish":   "set -gx A 'x';\nset -gx B 'it\\'s \"\\\\ $HOME';\nset -gx C '';\n",
		"github": "A=x\nB=it's \"\\ $HOME\nC=\n",
	} {
		var b strings.Builder
		if err := f.print(&b, variables); err != nil || b.String() != want {
			t.Errorf("%s: found %q (%v), expected %q", f, b.String(), err, want)
		}
	}
	var b strings.Builder
	var values map[string]string
	if err := format("json").print(&b, variables); err != nil || json.Unmarshal([]byte(b.String()), &values) != nil || values["B"] != `it's "\ $HOME` {
		t.Errorf("json: found %s (%v)", b.String(), err)
	}
}

func TestEnvRefusesWhatExecRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"env extra": "expected no argument", "env --format csh": `expected one of sh, fish, github, json, found "csh"`,
		"env --socket x -d lo": "--socket", "env --engine here": "expected auto", "env --protocol iwarp -d roce1:lo": "names a RoCE v1 device",
	} {
		clitest.Start(t, strings.Fields(args)...).Fails(cli.ExitUsage, want)
	}
}
