package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/daemon"
)

func TestDaemonReplacesOnlyKilledDaemon(t *testing.T) {
	d, socket := clitest.StartDaemon(t, "-d", "127.21.1.1")
	second := clitest.Start(t, "daemon", "--socket", socket, "-d", "127.21.1.2")
	second.Fails(cli.ExitFailed, "already listens on "+socket)
	if err := d.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.Ended
	third := clitest.Start(t, "daemon", "--socket", socket, "-d", "127.21.1.1")
	third.Prints("serving")
	if _, err := daemon.Ask(t.Context(), socket); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(socket+"2", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "daemon", "--socket", socket+"2", "-d", "127.21.1.3").Fails(cli.ExitFailed, "expected a socket")
}

// timeout(1) signals its child and then its process group, so the child gets the signal
// twice.
func TestDaemonCleansUpAfterTwoSignals(t *testing.T) {
	d, socket := clitest.StartDaemon(t, "-d", "127.21.1.4")
	for range 2 {
		if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // the kernel merges equal pending signals
	}
	if code := d.ExitCode(); code != cli.ExitOK {
		t.Errorf("code %d, expected 0", code)
	}
	for _, left := range []string{socket, socket + ".d"} {
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists (%v)", left, err)
		}
	}
}

// Only root can serve other users' programs.
func TestDaemonOfOrdinaryUserRefusesAllow(t *testing.T) {
	c := clitest.Start
	args := []string{"daemon", "--socket", filepath.Join(clitest.ShortDir(t), "socket"), "--allow", "1,2"}
	if os.Geteuid() == 0 {
		c = clitest.StartAsNobody
	}
	c(t, args...).Fails(cli.ExitUsage, "CLIENT_MEMORY")
}

func TestGoProgramsShareTheAddressesOfADaemon(t *testing.T) {
	dir := clitest.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	socket := filepath.Join(dir, "softrdma", "socket")
	if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "daemon", "--socket", socket, "-d", "127.21.3.1", "-d", "127.21.3.2", "-d", "iwarp:127.21.3.1").Prints("serving programs of")
	out := clitest.Run(t, "devices")
	if !strings.Contains(out, "shared:/rxe0  127.21.3.1") || !strings.Contains(out, "shared:/rxe1  127.21.3.2") || strings.Contains(out, "siw0") {
		t.Errorf("devices:\n%s", out)
	}
	server := clitest.Start(t, "perf", "write", "bw", "-d", "shared:", "-p", "18561")
	server.Prints("waiting for a client")
	out = clitest.Run(t, "perf", "write", "bw", "-n", "50", "-d", "shared:"+socket+"/rxe1", "-p", "18561", "127.0.0.1")
	if !strings.Contains(out, "client 127.21.3.2:4791, server 127.21.3.1:4791") || server.ExitCode() != 0 {
		t.Errorf("client:\n%s\nserver: %s%s", out, &server.Stdout, &server.Stderr)
	}
	clitest.Start(t, "pingpong", "-d", "shared:/rxe9").Fails(cli.ExitFailed, `no device "rxe9"`)
}

// A daemon that systemd has started says when it serves (Type=notify).
func TestDaemonNotifiesSystemd(t *testing.T) {
	dir := clitest.ShortDir(t)
	name := filepath.Join(dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	socket := filepath.Join(dir, "socket")
	p := clitest.Prepare(t, "daemon", "-d", clitest.LoopbackDevice(t), "--socket", socket)
	p.Cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name)
	p.Start()
	if err := c.SetReadDeadline(time.Now().Add(clitest.Timeout)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Fatalf("expected READY=1, found %q, %v: %s", b[:n], err, &p.Stderr)
	}
	if _, err := daemon.Ask(t.Context(), socket); err != nil {
		t.Errorf("the daemon does not serve: %v", err)
	}
}

// Without a runtime directory a user's daemon is in /tmp, in a directory that must be the user's.
func TestDaemonWithoutARuntimeDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts daemons of other users")
	}
	const user = 65534
	dir := fmt.Sprintf("/tmp/softrdma-daemon-%d", user)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", "")
	p := clitest.StartAsNobody(t, "daemon", "-d", clitest.LoopbackDevice(t))
	p.Prints("on " + dir + "/socket")
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil || p.ExitCode() != 0 {
		t.Fatalf("%v: %s", err, &p.Stderr)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil { // root's, as another user's would be
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	clitest.StartAsNobody(t, "daemon", "-d", clitest.LoopbackDevice(t)).Fails(cli.ExitFailed, "expected a directory of user 65534")
}

func TestDaemonRefusesALimitOfTooLittleMemory(t *testing.T) {
	clitest.Start(t, "daemon", "-d", "127.21.7.1", "--client-memory", "48").Fails(cli.ExitUsage, "--client-memory: expected at least 1048576, found 48")
}

func TestDaemonEndsWhenItIsIdle(t *testing.T) {
	d, socket := clitest.StartDaemon(t, "-d", "127.21.1.5", "--idle", "300ms")
	if code := d.ExitCode(); code != cli.ExitOK {
		t.Errorf("code %d, expected 0", code)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists (%v)", socket, err)
	}
	clitest.Start(t, "daemon", "--socket", socket, "-d", "127.21.1.5", "--idle", "-1s").Fails(cli.ExitUsage, "--idle")
}

func TestDaemonOnDemandIsJoined(t *testing.T) {
	args := []string{"daemon", "--on-demand", "--idle", "1s", "-d", "127.21.1.6"}
	first := clitest.Start(t, args...)
	first.Prints("/tree")
	second := clitest.Start(t, args...)
	if code := second.ExitCode(); code != cli.ExitOK {
		t.Errorf("code %d, expected 0", code)
	}
	if a, b := string(first.Output()), string(second.Output()); a != "+"+b {
		t.Errorf("the second start says %q, the first %q", b, a)
	}
	if code := first.ExitCode(); code != cli.ExitOK {
		t.Errorf("code %d, expected 0", code)
	}
	dir := filepath.Dir(strings.TrimPrefix(strings.Split(string(first.Output()), "\n")[0], "+"))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists (%v)", dir, err)
	}
}
