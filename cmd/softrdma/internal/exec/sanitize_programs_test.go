//go:build interop && linux

package exec

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/sanitize"
)

// compileMistakes compiles the program of testdata/mistakes.c, or another one.
func compileMistakes(t *testing.T, name string, libraries ...string) string {
	t.Helper()
	clitest.NeedPrograms(t, "gcc", "ibv_devinfo")
	path := filepath.Join(t.TempDir(), name)
	args := []string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I", "../../../../internal/uverbs/testdata/inprogram", "-o", path, "testdata/" + name + ".c", "-libverbs", "-lpthread"}
	args = append(args, libraries...)
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return path
}

// findings runs a program and returns its exit code and what the sanitizer has found.
func findings(t *testing.T, flags []string, program ...string) (code int, list []sanitize.Finding, text string) {
	t.Helper()
	return findingsOn(t, clitest.LoopbackDevice(t), flags, program...)
}

// findingsOn is findings on a device.
func findingsOn(t *testing.T, device string, flags []string, program ...string) (code int, list []sanitize.Finding, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "findings")
	args := append([]string{"exec", "-d", device, "--sanitize-json", path}, flags...)
	p := clitest.Start(t, append(append(args, "--"), program...)...)
	code = p.ExitCode()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var f sanitize.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return code, list, p.Stderr.String()
}

// Each mistake of a C program is found, and nothing else, with the line that made it.
func TestSanitizerFindsMistakesOfPrograms(t *testing.T) {
	path := compileMistakes(t, "mistakes")
	for _, c := range []struct{ mistake, rule, function string }{
		{"nothing", "", ""},
		{"use_after_dereg", "USE_AFTER_DEREG", "use_after_dereg"},
		{"peer_uses_after_dereg", "USE_AFTER_DEREG", "peer_uses_after_dereg"},
		{"dereg_in_flight", "DEREG_IN_FLIGHT", "receive"}, // where the receive was posted
		{"lkey_other_pd", "LKEY_OTHER_PD", "other_pd"},
		{"send_changed", "SEND_CHANGED", "send_changed"},
		{"receive_changed", "RECEIVE_CHANGED", "receive_changed"},
		{"shared_receive_changed", "RECEIVE_CHANGED", "shared_receive_changed"},
		{"read_changed", "READ_CHANGED", "read_changed"},
		{"sends_unsignaled", "SENDS_UNSIGNALED", "sends_unsignaled"},
		{"cq_too_shallow", "CQ_TOO_SHALLOW", "cq_too_shallow"},
		{"cq_unpolled", "CQ_UNPOLLED", "make_side"},
		{"failure_unpolled", "FAILURE_UNPOLLED", "make_side"},
		{"event_unarmed", "EVENT_UNARMED", "event_unarmed"},
		{"receive_missing", "RECEIVE_MISSING", "make_side"},
		{"object_leaked", "OBJECT_LEAKED", "object_leaked"},
		{"key_sent", "KEY_SENT", "key_sent"},
		{"rights_unused", "RIGHTS_UNUSED", "device_begin"},
	} {
		t.Run(c.mistake, func(t *testing.T) {
			rules := "default"
			if c.rule == "RIGHTS_UNUSED" || c.rule == "KEY_SENT" {
				rules = c.rule // not checked by default, and the other mistakes leave rights unused
			}
			code, list, text := findings(t, []string{"--sanitize=" + rules}, path, c.mistake)
			expect(t, c.rule, c.function, code, list, text)
		})
	}
}

// Mistakes of a program whose requests have the layout of siw's driver, which rings few doorbells.
func TestSanitizerFindsMistakesOfIWARPPrograms(t *testing.T) {
	path := compileMistakes(t, "mistakes_cm", "-lrdmacm")
	for _, c := range []struct{ mistake, rule, function string }{
		{"nothing", "", ""},
		{"closing", "", ""},
		{"receive_changed", "RECEIVE_CHANGED", "receive_changed"},
		{"use_after_dereg", "USE_AFTER_DEREG", "use_after_dereg"},
		{"lkey_other_pd", "LKEY_OTHER_PD", "other_pd"},
		{"dereg_in_flight", "DEREG_IN_FLIGHT", "receive"},
		{"sends_unsignaled", "SENDS_UNSIGNALED", "sends_unsignaled"},
	} {
		t.Run(c.mistake, func(t *testing.T) {
			address := clitest.LoopbackDevice(t)
			code, list, text := findingsOn(t, "iwarp:"+address, []string{"--sanitize"}, path, address, c.mistake)
			expect(t, c.rule, c.function, code, list, text)
		})
	}
}

// expect checks that one mistake was found, in a function, or none if there is no rule.
func expect(t *testing.T, rule, function string, code int, list []sanitize.Finding, text string) {
	t.Helper()
	if rule == "" {
		if code != 0 || len(list) > 0 {
			t.Errorf("code %d\n%s", code, text)
		}
		return
	}
	if code != sanitizeExit || len(list) != 1 || list[0].Rule != rule || !strings.Contains(text, "== softrdma: "+rule+": ") {
		t.Fatalf("expected %s, code %d\n%s", rule, code, text)
	}
	if !names(&list[0], function) {
		t.Errorf("expected a line of %s\n%s", function, text)
	}
}

// names reports whether a position of a finding is in a function of mistakes.c.
func names(f *sanitize.Finding, function string) bool {
	all := slices.Clone(f.Where)
	for _, n := range f.Before {
		all = append(all, n.Where...)
	}
	return slices.ContainsFunc(all, func(x sanitize.Frame) bool { return x.Function == function && x.Line > 0 })
}

func TestExecFlagsOfTheSanitizer(t *testing.T) {
	path := compileMistakes(t, "mistakes")
	file := filepath.Join(t.TempDir(), "suppressions")
	if err := os.WriteFile(file, []byte("# known\nOBJECT_LEAKED:object_leaked\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, list, text := findings(t, []string{"--sanitize", "--suppressions", file}, path, "object_leaked"); code != 0 || len(list) > 0 {
		t.Errorf("suppressed: code %d\n%s", code, text)
	}
	if code, _, text := findings(t, []string{"--sanitize", "--sanitize-exit", "7"}, path, "object_leaked"); code != 7 {
		t.Errorf("--sanitize-exit: code %d\n%s", code, text)
	}
	if code, _, text := findings(t, []string{"--sanitize"}, "sh", "-c", path+" object_leaked; exit 3"); code != 3 {
		t.Errorf("the program's own code: found %d\n%s", code, text)
	}
	clitest.Start(t, "exec", "--sanitize=NO_RULE", "--", "true").Fails(cli.ExitUsage, "expected default, all, USE_AFTER_DEREG")
	clitest.Start(t, "exec", "--sanitize", "--engine", "daemon", "--", "true").Fails(cli.ExitUsage, "--engine daemon")
	clitest.Start(t, "exec", "--sanitize-json", "x", "--", "true").Fails(cli.ExitUsage, "expected --sanitize as well")
	if err := os.WriteFile(file, []byte("\nOBJECT_LEAKED\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "exec", "--sanitize", "--suppressions", file, "--", "true").Fails(cli.ExitUsage, "line 2: expected RULE:PATTERN")
}
