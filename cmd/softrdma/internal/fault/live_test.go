package fault

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/verbs"
)

// run runs the command and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Rules of a device that is open are added, listed and removed.
func TestRulesOfRunningProgramsChange(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	if out, err := run(t, "list"); err == nil || !strings.Contains(err.Error(), "found no device of a program") {
		t.Fatalf("%s, %v", out, err)
	}
	name := clitest.LoopbackDevice(t)
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if out, err := run(t, "list"); err != nil || !strings.Contains(out, name+"  no rules") {
		t.Fatalf("%s, %v", out, err)
	}
	path := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(path, []byte("rules:\n- name: second\n  action: mark\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "cable-pull"}, {"add", "-d", name, path}} {
		if out, err := run(t, args...); err != nil || !strings.Contains(out, "port-down") {
			t.Fatalf("%s, %v", out, err)
		}
	}
	if n := len(dev.Faults().Rules().Rules); n < 2 {
		t.Errorf("%d rules", n)
	}
	out, err := run(t, "list", "--json")
	if err != nil || !strings.Contains(out, `"device": "`+name+`"`) || !strings.Contains(out, `"name": "second"`) {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := run(t, "clear", "--pid", "1"); err == nil || !strings.Contains(err.Error(), "of process 1") {
		t.Errorf("%v", err)
	}
	if out, err := run(t, "clear"); err != nil || !strings.Contains(out, "no rules") || len(dev.Faults().Rules().Rules) != 0 {
		t.Errorf("%s, %v", out, err)
	}
}
