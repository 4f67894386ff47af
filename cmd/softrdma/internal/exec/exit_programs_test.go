//go:build interop && linux

package exec

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// The exit code is that of the program, also where softrdma has a meaning of its own for the number.
func TestExecEndsAsItsProgram(t *testing.T) {
	clitest.NeedPrograms(t, "sh")
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program []string
		code    int
		says    string
	}{
		{[]string{"sh", "-c", "exit 0"}, 0, ""},
		{[]string{"sh", "-c", "exit 2"}, 2, "sh: exit status 2"},
		{[]string{"sh", "-c", "kill -9 $$"}, 137, "sh: killed"},
		{[]string{"no-such-program"}, 127, "no-such-program"},
		{[]string{"./no-such-program"}, 127, "no-such-program"},
		{[]string{data}, 126, "permission denied"},
	} {
		p := clitest.Start(t, append([]string{"exec", "-d", clitest.LoopbackDevice(t), "--"}, c.program...)...)
		if code := p.ExitCode(); code != c.code || !strings.Contains(p.Stderr.String(), c.says) || strings.Contains(p.Stderr.String(), "--help") {
			t.Errorf("%v: expected %d and %q, found %d and %q", c.program, c.code, c.says, code, &p.Stderr)
		}
	}
}

// A signal to softrdma is passed on, and the program decides.
func TestExecPassesSignalsOn(t *testing.T) {
	clitest.NeedPrograms(t, "sh")
	for _, c := range []struct {
		trap   string
		signal syscall.Signal
		code   int
	}{
		{"trap 'exit 0' TERM", syscall.SIGTERM, 0},
		{"trap 'exit 5' TERM", syscall.SIGTERM, 5},
		{"trap 'exit 6' INT", syscall.SIGINT, 6},
		{":", syscall.SIGTERM, 143},
	} {
		p := clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--", "sh", "-c", c.trap+"; echo ready; while :; do sleep 0.1; done")
		p.Prints("ready")
		if err := p.Cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		if code := p.ExitCode(); code != c.code {
			t.Errorf("%s: expected %d after %v, found %d: %s", c.trap, c.code, c.signal, code, &p.Stderr)
		}
	}
}

// With --wait a program may be started before its daemon.
func TestExecWaitsForADaemon(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devices")
	socket := filepath.Join(clitest.ShortDir(t), "socket")
	clitest.Start(t, "exec", "--socket", socket, "--wait=200ms", "--", "true").Fails(cli.ExitFailed, "no daemon listens on "+socket+" after 200ms")
	clitest.Start(t, "exec", "--wait", "-d", "lo", "--", "true").Fails(cli.ExitUsage, "--wait")
	clitest.Start(t, "exec", "--wait=-1s", "--", "true").Fails(cli.ExitUsage, "--wait: expected a positive duration")
	clitest.Start(t, "exec", "--wait", "1s", "--", "true").Fails(cli.ExitUsage, "--wait=1s")
	p := clitest.Start(t, "exec", "--socket", socket, "--wait", "--", "ibv_devices")
	clitest.Start(t, "daemon", "-d", clitest.LoopbackDevice(t), "--socket", socket).Prints("serving")
	if out := p.Succeeds(); !strings.Contains(out, "rxe0") {
		t.Errorf("found %s", out)
	}
}

// Without a directory to write to a program has a daemon's devices, and no devices of its own.
func TestExecWithoutADirectory(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo", "unshare", "setpriv")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root mounts directories")
	}
	_, socket := clitest.StartDaemon(t, "-d", clitest.LoopbackDevice(t))
	script := "for d in /tmp /dev/shm; do mount --bind $d $d && mount -o remount,bind,ro $d || exit 9; done; unset TMPDIR XDG_RUNTIME_DIR; export HOME=/nowhere; exec \"$0\" exec \"$@\""
	run := func(args ...string) *clitest.Process {
		p := clitest.Prepare(t)
		p.Cmd.Args = append([]string{"unshare", "--mount", "sh", "-c", script, clitest.Command(t)}, args...)
		p.Cmd.Path = "/usr/bin/unshare"
		p.Start()
		return p
	}
	for _, engine := range []string{"program", "daemon"} {
		if out := run("--engine", engine, "--socket", socket, "--", "ibv_devinfo").Succeeds(); !strings.Contains(out, "hca_id:\trxe0") {
			t.Errorf("--engine %s: found %s", engine, out)
		}
	}
	run("-d", clitest.LoopbackDevice(t), "--", "ibv_devinfo").Fails(cli.ExitFailed, "/tmp, /dev/shm", "read-only file system", "emptyDir")
}
