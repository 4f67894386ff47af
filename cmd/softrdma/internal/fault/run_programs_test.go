//go:build interop && linux

package fault

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// pings is a script with a client and a server of rping. The client tries again until the server listens.
const pings = `rping -s -a $1 -C 300 -S 4000 -V & server=$!
tries=0
while ! sleep .3 || ! rping -c -a $1 -C 300 -S 4000 -V; do
	[ $tries = 3 ] && exit 1
	tries=$((tries+1))
done
wait $server`

// rping ends as the standard asks under each scenario: lost packets are repeated, a refused request and
// packets that never arrive have their statuses.
func TestProgramUnderScenarios(t *testing.T) {
	clitest.NeedPrograms(t, "rping", "sh", "tshark")
	addr := clitest.LoopbackDevice(t)
	run := func(args ...string) (runs []outcome, code int) {
		p := clitest.Start(t, append(append([]string{"fault", "run", "-d", addr, "--json", "--timeout", "50s"}, args...), "--", "sh", "-c", pings, "sh", addr)...)
		code = p.ExitCode()
		if err := json.Unmarshal([]byte(p.Stdout.String()), &runs); err != nil {
			t.Fatalf("code %d, %v: %s%s", code, err, &p.Stdout, &p.Stderr)
		}
		return runs, code
	}
	runs, code := run("lossy-link", "wrong-key", "mtu-black-hole")
	if code != 0 || len(runs) != 4 {
		t.Fatalf("code %d, %+v", code, runs)
	}
	for i, want := range []struct {
		scenario string
		verdict  verdict
		status   string
	}{{"(none)", survived, ""}, {"lossy-link", survived, ""}, {"wrong-key", failed, "IBV_WC_REM_ACCESS_ERR"}, {"mtu-black-hole", failed, "IBV_WC_RETRY_EXC_ERR"}} {
		if o := &runs[i]; o.Scenario != want.scenario || o.Verdict != want.verdict || o.Status != want.status || (i > 0) != (o.Hits > 0) {
			t.Errorf("found %s: %s, status %q, %d hits; expected %+v", o.Scenario, o.Verdict, o.Status, o.Hits, want)
		}
	}
	if _, code := run("--strict", "wrong-key"); code != cli.ExitFailed {
		t.Errorf("--strict ends with code %d", code)
	}

	rules, packets := filepath.Join(t.TempDir(), "faults.yaml"), filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(rules, []byte("rules:\n  - name: the third WRITE\n    select: {direction: sent, opcode: write, nth: 3}\n    action: drop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := clitest.Start(t, "exec", "-d", addr, "--faults", rules, "--pcap", packets, "--", "sh", "-c", pings, "sh", addr); p.ExitCode() != 0 {
		t.Fatalf("%s%s", &p.Stdout, &p.Stderr)
	}
	out, err := exec.Command("tshark", "-r", packets, "-Y", `frame.comment contains "fault"`, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.comment").CombinedOutput()
	if lines := strings.Count(string(out), "drop"); err != nil || lines != 1 {
		t.Errorf("tshark: %v, %d packets with a fault, expected 1:\n%s", err, lines, out)
	}
}

// Processes that have left the program's group do not keep the device's address from the next run.
func TestProgramsOrphansEndWithTheRun(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong", "sh", "setsid")
	addr := clitest.LoopbackDevice(t)
	p := clitest.Start(t, "fault", "run", "-d", addr, "--json", "--timeout", "20s", "lost-rtu", "wrong-key", "--",
		"sh", "-c", "setsid ibv_rc_pingpong -g 0 >/dev/null 2>&1 & sleep 1")
	var runs []outcome
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &runs); err != nil {
		t.Fatal(err)
	}
	for _, o := range runs {
		if o.Verdict != survived {
			t.Errorf("%s: found %s: %s, expected a run as the first", o.Scenario, o.Verdict, o.Line)
		}
	}
}
