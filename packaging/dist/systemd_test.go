package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const unit = "../systemd/softrdma.service"

func systemdAnalyze(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("systemd-analyze")
	if err != nil {
		lacks(t, "systemd-analyze (Debian: systemd)")
	}
	return name
}

// installed returns the unit file with the path of the tests' program in the place of another.
func installed(t *testing.T, text, place, program string) string {
	t.Helper()
	text = strings.ReplaceAll(text, place, program)
	text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(text, "") // systemd-analyze checks that the manual page exists
	name := filepath.Join(t.TempDir(), "softrdma.service")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestUnitIsValid(t *testing.T) {
	analyze := systemdAnalyze(t)
	program, err := filepath.Abs(current(t).program(host))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{
		"/usr/local/bin/softrdma": string(b),
		"/usr/bin/softrdma":       string(debMembers(t, debName(t, host))["usr/lib/systemd/system/softrdma.service"].data),
	} {
		if !strings.Contains(text, "ExecStart="+place+" ") {
			t.Errorf("the unit does not start %s:\n%s", place, text)
		}
		if out, err := exec.Command(analyze, "verify", installed(t, text, place, program)).CombinedOutput(); err != nil || strings.Contains(string(out), "softrdma.service") {
			t.Errorf("%s: %v\n%s", place, err, out)
		}
	}
}

// systemd rates the exposure of a service from 0 to 10.
func TestUnitIsConfined(t *testing.T) {
	out, err := exec.Command(systemdAnalyze(t), "security", "--offline=true", "--threshold=30", unit).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnitUsesFlagsThatExist(t *testing.T) {
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/softrdma (.*) \$SOFTRDMA_DAEMON_ARGS$`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no command in\n%s", b)
	}
	understands(t, strings.Fields(string(m[1]))...)
}

// understands checks that the command accepts the arguments. It parses them before it
// prints its help.
func understands(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(current(t).program(host), append(args, "--help")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Usage:") {
		t.Errorf("softrdma %v: %v\n%s", args, err, out)
	}
}

// confinedScript checks that a daemon with only the unit's capabilities serves programs
// of other users.
const confinedScript = `
ip link set lo up
setpriv --bounding-set=-all,%s --no-new-privs "$PROGRAM" daemon --device 127.0.0.9 --socket "$DIR/socket" --allow all & daemon=$!
for i in $(seq 300); do [ -S "$DIR/socket" ] && break; sleep 0.1; done
as() {
	uid=$1; shift
	setpriv --reuid=$uid --regid=$uid --clear-groups "$PROGRAM" exec --socket "$DIR/socket" --engine daemon -- ibv_rc_pingpong -g 0 -c -n 20 "$@"
}
as 1234 & program=$!
for i in $(seq 20); do
	as 1235 127.0.0.1 && measured=yes && break
	sleep 0.5
done
[ -n "$measured" ] && wait $program && kill $daemon && wait $daemon && echo all ended
`

func TestUnitsCapabilitiesServeOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		lacks(t, "root, which the unit's daemon is")
	}
	for _, need := range []string{"unshare", "ip", "setpriv", "ibv_rc_pingpong"} {
		if _, err := exec.LookPath(need); err != nil {
			lacks(t, need)
		}
	}
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no capabilities in\n%s", b)
	}
	var set []string
	for name := range strings.FieldsSeq(string(m[1])) {
		set = append(set, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	dir := openTemp(t)
	program := filepath.Join(dir, "softrdma")
	data, err := os.ReadFile(current(t).program(host))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", fmt.Sprintf(confinedScript, strings.Join(set, ",")))
	cmd.Env = append(os.Environ(), "PROGRAM="+program, "DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "all ended") {
		t.Errorf("%v\n%s", err, out)
	}
}

// openTemp returns a temporary directory that other users can access.
func openTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
