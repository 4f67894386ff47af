package clitest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// StartDaemon starts a daemon on a socket of its own and waits until it serves.
func StartDaemon(t *testing.T, args ...string) (d *Process, socket string) {
	t.Helper()
	socket = filepath.Join(ShortDir(t), "socket")
	d = Start(t, append([]string{"daemon", "--socket", socket}, args...)...)
	d.Prints("serving programs of")
	return d, socket
}

// ShortDir returns a directory with a path short enough for Unix sockets.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "srd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// StartAsNobody is Start as another user.
func StartAsNobody(t *testing.T, args ...string) *Process {
	t.Helper()
	return StartAs(t, 65534, nil, args...)
}

// StartAs is Start as a user with some more environment variables.
func StartAs(t *testing.T, uid uint32, env []string, args ...string) *Process {
	t.Helper()
	b, err := os.ReadFile(Command(t)) // the original is not accessible to other users
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(ShortDir(t), "softrdma")
	if err := errors.Join(os.WriteFile(bin, b, 0o755), os.Chmod(filepath.Dir(bin), 0o755)); err != nil {
		t.Fatal(err)
	}
	p := Prepare(t, args...)
	p.Cmd.Path, p.Cmd.Dir, p.Cmd.Env = bin, "/", append(os.Environ(), env...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	p.Start()
	return p
}
