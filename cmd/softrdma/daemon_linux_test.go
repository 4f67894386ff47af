package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/driver/daemon"
)

// startDaemon starts a daemon on a socket of this test's own and waits until it
// serves.
func startDaemon(t *testing.T, args ...string) (d *process, socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "socket")
	d = start(t, append([]string{"daemon", "--socket", socket}, args...)...)
	d.prints("serving programs of")
	return d, socket
}

// shortDir is a directory whose sockets have short enough names.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "srd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestDaemonTakesThePlaceOfOneThatWasKilledOnly(t *testing.T) {
	d, socket := startDaemon(t, "-d", "127.21.1.1")
	second := start(t, "daemon", "--socket", socket, "-d", "127.21.1.2")
	second.fails(exitFailed, "serves "+socket+" already")
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.ended
	third := start(t, "daemon", "--socket", socket, "-d", "127.21.1.1")
	third.prints("serving")
	if _, err := daemon.Ask(socket); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(socket+"2", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "daemon", "--socket", socket+"2", "-d", "127.21.1.3").fails(exitFailed, "something else")
}

// timeout(1) sends its signal to its child and to its group, which is twice.
func TestDaemonLeavesNothingBehindASignalThatComesTwice(t *testing.T) {
	d, socket := startDaemon(t, "-d", "127.21.1.4")
	for range 2 {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // two of a kind at a time are one
	}
	if code := d.code(); code != exitOK {
		t.Errorf("code %d, expected 0", code)
	}
	for _, left := range []string{socket, socket + ".d"} {
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind (%v)", left, err)
		}
	}
}

// Who is not root cannot serve others, and says so before anything else.
func TestDaemonOfAUserAloneRefusesToServeOthers(t *testing.T) {
	c := start
	args := []string{"daemon", "--socket", filepath.Join(shortDir(t), "socket"), "--allow", "1,2"}
	if os.Geteuid() == 0 {
		c = startAsNobody
	}
	c(t, args...).fails(exitUsage, "CLIENT_MEMORY")
}

// startAsNobody is start, as another user.
func startAsNobody(t *testing.T, args ...string) *process {
	t.Helper()
	b, err := os.ReadFile(builtCommand) // lies where others cannot go
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(shortDir(t), "softrdma")
	if err := errors.Join(os.WriteFile(bin, b, 0o755), os.Chmod(filepath.Dir(bin), 0o755)); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, args...)
	p.cmd.Path, p.cmd.Dir = bin, "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p.start()
	return p
}

func TestGoProgramsShareTheDevicesOfADaemon(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	socket := filepath.Join(dir, "softrdma", "socket")
	if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, "daemon", "--socket", socket, "-d", "127.21.3.1", "-d", "127.21.3.2", "-d", "iwarp:127.21.3.1", "-d", "iwarp:127.21.3.2").prints("serving programs of")
	if out := run(t, "devices"); !strings.Contains(out, "daemon:/rxe0  127.21.3.1") || !strings.Contains(out, "daemon:/rxe1  127.21.3.2") {
		t.Errorf("devices:\n%s", out)
	}
	server := start(t, "perf", "write", "bw", "-d", "daemon:", "-p", "18561")
	server.prints("waiting for a client")
	out := run(t, "perf", "write", "bw", "-n", "50", "-d", "daemon:"+socket+"/rxe1", "-p", "18561", "127.0.0.1")
	if !strings.Contains(out, "client 127.21.3.2:4791, server 127.21.3.1:4791") || server.code() != 0 {
		t.Errorf("client:\n%s\nserver: %s%s", out, &server.stdout, &server.stderr)
	}
	start(t, "pingpong", "-d", "daemon:/rxe9").fails(exitFailed, `no device "rxe9"`)
	connectsOverADaemon(t, "daemon:"+socket+"/rxe0", "daemon:/rxe1")
	connectsOverADaemon(t, "daemon:"+socket+"/siw0", "daemon:/siw1")
	start(t, "rping", "-s", "-a", "daemon:/siw0", "--protocol", "roce").fails(exitUsage, "an iWARP device")
}

// connectsOverADaemon tries the commands that go through the connection manager,
// from one device to the other.
func connectsOverADaemon(t *testing.T, server, client string) {
	t.Helper()
	const at = "127.21.3.1"
	ping := start(t, "rping", "-s", "-a", server, "-V", "-p", "18571")
	ping.prints("waiting for a client on " + at)
	if out := run(t, "rping", "-c", "-a", at, "-I", client, "-V", "-C", "20", "-p", "18571"); !strings.Contains(out, "20 pings of 64 bytes") {
		t.Errorf("rping:\n%s", out)
	}
	ping.succeeds()
	table := start(t, "pingpong", "-R", "-d", server, "-p", "18572")
	table.prints("waiting for a client on " + at)
	if out := run(t, "pingpong", "-R", "-d", client, "-p", "18572", at); !strings.Contains(out, "1000 iters") {
		t.Errorf("pingpong:\n%s", out)
	}
	table.succeeds()
	perf := start(t, "perf", "send", "lat", "-d", server, "-p", "18573")
	perf.prints("waiting for a client")
	if out := run(t, "perf", "send", "lat", "-R", "-n", "50", "-d", client, "-p", "18573", "127.0.0.1"); !strings.Contains(out, at) || perf.code() != 0 {
		t.Errorf("perf:\n%s\nserver: %s%s", out, &perf.stdout, &perf.stderr)
	}
	words := strings.Repeat("from one device to the other\n", 20_000)
	waits := start(t, "cat", "-v", "-l", server+":18574")
	waits.tells("waiting for a client on " + at)
	goes := prepare(t, "cat", "-I", client, at, "18574")
	goes.cmd.Stdin = strings.NewReader(words)
	goes.start()
	goes.ends()
	if out := waits.ends(); string(out) != words {
		t.Errorf("cat: %d bytes came", len(out))
	}
	dir := shortDir(t)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	copies := start(t, "rcopy", "-a", server, "-p", "18575", "--dir", dir, "--once")
	copies.prints("waiting for a client on " + at)
	run(t, "rcopy", "-p", "18575", "-I", client, from, at+":"+to)
	copies.succeeds()
	if b, err := os.ReadFile(to); err != nil || string(b) != words {
		t.Errorf("rcopy: %d bytes came, %v", len(b), err)
	}
	start(t, "cat", "-l", "daemon:").fails(exitUsage, "port")
}
