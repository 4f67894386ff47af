//go:build interop && linux

package exec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// envTime is enough for a few programs on a busy machine.
const envTime = 2 * time.Minute

// inShell runs a script in the environment that env prints for some flags.
func inShell(t *testing.T, flags, script string) string {
	t.Helper()
	out, err := shell(t, flags, script).CombinedOutput()
	if err != nil {
		t.Fatalf("env %s: %v\n%s", flags, err, out)
	}
	return string(out)
}

func shell(t *testing.T, flags, script string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), envTime)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "bash", "-c", `variables=$("$0" env `+flags+`) || exit 9; eval "$variables"; `+script, clitest.Command(t))
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+clitest.ShortDir(t)) // without a daemon
	return c
}

// servers returns the processes that serve a device on demand.
func servers(t *testing.T, device string) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		text, _ := os.ReadFile(path) // the process may have ended
		if args := strings.Split(string(text), "\x00"); len(args) > 3 && args[2] == "--on-demand" && strings.HasSuffix(args[3], "="+device) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// ends waits until no server of a device is there.
func ends(t *testing.T, device string) {
	t.Helper()
	for deadline := time.Now().Add(envTime); len(servers(t, device)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("servers %v of %s have not ended", servers(t, device), device)
		}
	}
}

func TestProgramsOfAShellHaveADevice(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "rping")
	a, b := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
	out := inShell(t, "-d "+a+" -d "+b, fmt.Sprintf(`
set -e
ibv_devinfo | grep hca_id
pair() { server=$1; shift; $server >/dev/null & pid=$!; for i in $(seq 100); do "$@" >/dev/null 2>&1 && break; sleep .1; done; wait $pid; echo "$1 ended"; }
pair "ibv_rc_pingpong -d rxe0 -g 0" ibv_rc_pingpong -d rxe1 -g 0 127.0.0.1
pair "ib_write_bw -d rxe0 -p 18721" ib_write_bw -d rxe1 -p 18721 127.0.0.1
pair "rping -s -a %[1]s -p 18722 -C 5" rping -c -a %[1]s -p 18722 -C 5
`, a))
	for _, want := range []string{"rxe0", "rxe1", "ibv_rc_pingpong ended", "ib_write_bw ended", "rping ended"} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q in\n%s", want, out)
		}
	}
	ends(t, b)
}

func TestFirstProgramsAtOnceStartOneServer(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "ibv_devices")
	a := clitest.LoopbackDevice(t)
	out := inShell(t, "-d "+a, `for i in $(seq 20); do ibv_devices & done; wait`)
	if n := strings.Count(out, "rxe0"); n != 20 {
		t.Errorf("%d of 20 programs found the device:\n%s", n, out)
	}
	if pids := servers(t, a); len(pids) != 1 {
		t.Errorf("found servers %v, expected one", pids)
	}
	ends(t, a)
}

// A second env for a device, by another of its names, joins the first one's server.
func TestSecondEnvJoinsTheServer(t *testing.T) {
	testenv.Root(t, "makes a network namespace")
	clitest.NeedPrograms(t, "bash", "ibv_devices", "unshare", "ip")
	script := `
ip link set lo up
use() { eval "$("$0" env $1)"; ibv_devices | grep -c rxe0; }
use "-d lo"; use "-d 127.0.0.1"; use "" # in one shell
(unset SOFTRDMA_START LD_PRELOAD; use "")
"$0" exec -v -- ibv_devices
ls -d /dev/shm/softrdma-env-*-$(readlink /proc/self/ns/net | tr -dc 0-9)-* | wc -l
`
	c := exec.CommandContext(t.Context(), "unshare", "--net", "bash", "-c", script, clitest.Command(t))
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+clitest.ShortDir(t))
	out, err := c.CombinedOutput()
	if text := string(out); err != nil || !strings.HasPrefix(text, "1\n1\n1\n1\n") || !strings.Contains(text, "of the daemon on") && !strings.HasSuffix(text, "\n1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestProgramSaysOnceWhyThereIsNoServer(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "ibv_devinfo")
	a := clitest.LoopbackDevice(t)
	other := clitest.Start(t, "pingpong", "-d", a)
	other.Prints(a)
	out := inShell(t, "-d "+a, `ibv_devinfo 2>&1 || true; true`)
	if strings.Count(out, "softrdma: no RDMA device: open RDMA device") != 1 || !strings.Contains(out, "already in use") {
		t.Errorf("found\n%s", out)
	}
	out = inShell(t, "-d "+a, `export SOFTRDMA_START="/nonexistent daemon"; ibv_devinfo 2>&1 || true; SOFTRDMA_START="/bin/false x" ibv_devinfo 2>&1; true`)
	for _, want := range []string{"cannot run /nonexistent: No such file or directory", "the server ended when it started"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("expected %q once in\n%s", want, out)
		}
	}
}

// A killed server leaves nothing that keeps the next program from starting another one.
func TestNextProgramReplacesAKilledServer(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "ibv_devices")
	a := clitest.LoopbackDevice(t)
	for range 3 {
		if out := inShell(t, "-d "+a, `ibv_devices`); !strings.Contains(out, "rxe0") {
			t.Fatalf("no device:\n%s", out)
		}
		pids := servers(t, a)
		if len(pids) != 1 {
			t.Fatalf("found servers %v, expected one", pids)
		}
		if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	inShell(t, "-d "+a, `ibv_devices`)
	ends(t, a)
}

func TestEnvRefusesUnknownDevice(t *testing.T) {
	clitest.Start(t, "env", "-d", "nosuch0").Fails(cli.ExitFailed, `open RDMA device "nosuch0"`, "expected one of")
}
