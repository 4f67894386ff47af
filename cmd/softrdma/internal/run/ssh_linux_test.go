package run

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
	"softrdma/internal/testenv/twohosts"
)

// startSSHD starts OpenSSH's server at one end of a path, and returns the command that reaches it.
func startSSHD(t *testing.T, path *twohosts.Hosts) (ssh string) {
	t.Helper()
	dir := clitest.ShortDir(t)
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	config := fmt.Sprintf("Port 22\nListenAddress %v\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nPidFile none\nUsePAM no\nLogLevel ERROR\nStrictModes no\nPermitRootLogin yes\n", path.Server, dir, dir)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		t.Fatal(err)
	}
	server, err := exec.LookPath("sshd") // it requires an absolute path
	if err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(path.Inside[1]), server, "-D", "-e", "-f", filepath.Join(dir, "config"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "ssh -F none -i " + filepath.Join(dir, "user") + " -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=5 -o StrictHostKeyChecking=no -o UserKnownHostsFile=" + filepath.Join(dir, "known")
}

// OpenSSH starts ranks on another host, in a separate network namespace. They form a group
// with the local ones over the network in between, and one that fails ends the others.
func TestRanksFormAGroupOverSSH(t *testing.T) {
	testenv.Root(t, "network namespaces")
	testenv.Programs(t, "sshd", "ssh", "ssh-keygen", "nsenter")
	path, err := twohosts.Cable(1500)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(path.Close)
	ssh := startSSHD(t, path)
	inside := func(what string, flags ...string) *clitest.Process {
		p := ranks(t, what, append([]string{"--hosts", "localhost:2," + path.Server.String() + ":2", "--ssh", ssh, "--remote", clitest.Command(t), "--env", "PATH"}, flags...)...)
		p.Cmd.Args = append(slices.Clone(path.Inside[0]), append([]string{p.Cmd.Path}, p.Cmd.Args[1:]...)...)
		if p.Cmd.Path, err = exec.LookPath(p.Cmd.Args[0]); err != nil {
			t.Fatal(err)
		}
		return p
	}
	listening(t, path)
	p := inside("sum", "--label")
	p.Start()
	want := []string{"[0] rank 0: sum 6", "[1] rank 1: sum 6", "[2] rank 2: sum 6", "[3] rank 3: sum 6"}
	if got := sorted(p.Succeeds()); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	p = inside("killed")
	p.Start()
	p.Fails(128+9, "rank 2 on "+path.Server.String(), "killed")
}

// listening waits until the server answers.
func listening(t *testing.T, path *twohosts.Hosts) {
	t.Helper()
	at := net.JoinHostPort(path.Server.String(), "22")
	for end := time.Now().Add(clitest.Timeout); ; time.Sleep(50 * time.Millisecond) {
		args := append(slices.Clone(path.Inside[0]), "ssh-keyscan", "-t", "ed25519", "-T", "2", path.Server.String())
		out, _ := exec.Command(args[0], args[1:]...).Output() // fails until it listens
		if strings.Contains(string(out), "ed25519") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing listens on %s", at)
		}
	}
}
