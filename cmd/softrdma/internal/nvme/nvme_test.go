package nvme

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

const nqn = "nqn.2024-01.org.example:disk"

// serve starts a target.
func serve(t *testing.T, at string, flags ...string) *clitest.Process {
	t.Helper()
	p := clitest.Start(t, append([]string{"nvme", "serve", "-a", at, "-n", nqn}, flags...)...)
	p.Prints("waiting for a client on " + at + " port 4420")
	return p
}

func TestWrittenDataIsReadAfterRestart(t *testing.T) {
	at, file := clitest.ServerAddress(t), filepath.Join(t.TempDir(), "disk.img")
	s := serve(t, at, "--namespace", file+",4M", "--namespace", "memory,1M,block=4096")
	data := clitest.RandomData(1, 1<<20+5)
	w := clitest.Prepare(t, "nvme", "write", "-n", nqn, "--offset", "64K", at)
	w.Cmd.Stdin = bytes.NewReader(data)
	w.Start()
	w.Succeeds()
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
	serve(t, at, "--namespace", file+",ro")
	got := clitest.Start(t, "nvme", "read", "-n", nqn, "--offset", "64K", "--length", "2M", at).Output()
	clitest.SameData(t, "data", data, got[:len(data)])
	if len(got) != 2<<20 {
		t.Errorf("read %d bytes", len(got))
	}
	w = clitest.Prepare(t, "nvme", "write", "-n", nqn, at)
	w.Cmd.Stdin = bytes.NewReader(data)
	w.Start()
	w.Fails(cli.ExitFailed, "NVME_SC_NS_WRITE_PROTECTED")
}

func TestSubsystemsAndNamespacesAreListed(t *testing.T) {
	at := clitest.ServerAddress(t)
	serve(t, at, "--namespace", "memory,1M,block=4096", "--namespace", "memory,2M,ro", "--host", "nqn.h")
	var entries []entry
	if err := json.Unmarshal([]byte(clitest.Run(t, "nvme", "discover", "--json", "--host", "nqn.h", at)), &entries); err != nil || len(entries) != 2 || entries[1] != (entry{nqn, "nvme subsystem", at, "4420", "roce-v2"}) {
		t.Errorf("got %+v, %v", entries, err)
	}
	var l listing
	if err := json.Unmarshal([]byte(clitest.Run(t, "nvme", "list", "--json", "-n", nqn, "--host", "nqn.h", at)), &l); err != nil || len(l.Namespaces) != 2 {
		t.Fatalf("got %+v, %v", l, err)
	}
	if a, b := l.Namespaces[0], l.Namespaces[1]; a.Bytes != 1<<20 || a.Block != 4096 || a.ReadOnly || b.Bytes != 2<<20 || !b.ReadOnly || a.NGUID == b.NGUID {
		t.Errorf("got %+v", l)
	}
	clitest.Start(t, "nvme", "list", "-n", nqn, at).Fails(cli.ExitFailed, "NVME_SC_CONNECT_INVALID_HOST")
}

// TestNamesOfPeersAreEscaped: a terminal would take what is no text for commands.
func TestNamesOfPeersAreEscaped(t *testing.T) {
	at := clitest.ServerAddress(t)
	const name, escaped = "nqn.\x1b[2J", `nqn.\x1b[2J`
	s := clitest.Start(t, "nvme", "serve", "-a", at, "-n", name, "--namespace", "memory,1M")
	s.Prints("waiting for a client on " + at + " port 4420")
	for _, args := range [][]string{{"discover"}, {"list", "-n", name}} {
		if out := clitest.Run(t, append(append([]string{"nvme"}, args...), at)...); strings.Contains(out, "\x1b") || !strings.Contains(out, escaped) {
			t.Errorf("%s prints %q", args[0], out)
		}
	}
	clitest.Start(t, "nvme", "list", "-n", "nqn.\x1b]0;x", at).Fails(cli.ExitFailed, "NVME_SC_CONNECT_INVALID_PARAM")
	s.PrintsError(`NVME_SUBSYSTEM_UNKNOWN: no subsystem has the name of the connect data: nqn.\x1b]0;x`)
}

func TestNamespacesThatCannotBeOpenedSayWhy(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "disk.img")
	for spec, says := range map[string]string{
		missing:           "no such file or directory; to make it, add its size: --namespace " + missing + ",1G",
		dir:               "expected a file or a block device",
		missing + ",100":  "expected at least a block of 512 bytes, found 100",
		missing + ",1M,x": "expected ro, direct, block=SIZE or a size",
		"memory":          "expected memory,SIZE",
	} {
		if _, err := openDisk(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: expected %q, found %v", spec, says, err)
		}
	}
}

// badBlock is a file of a rule by which one block can be neither read nor written.
func badBlock(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(path, []byte("rules:\n  - {action: fail-command, select: {namespace: 1, lba: 8}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRulesOfFaultsBreakTheDisk: those of --faults, and those that are added while the target runs.
func TestRulesOfFaultsBreakTheDisk(t *testing.T) {
	at := clitest.ServerAddress(t)
	s := serve(t, at, "--namespace", "memory,1M", "--faults", badBlock(t))
	read := []string{"nvme", "read", "-n", nqn, "--offset", "4K", "--length", "512", at}
	clitest.Start(t, read...).Fails(cli.ExitFailed, "NVME_SC_READ_ERROR")
	pid := strconv.Itoa(s.Cmd.Process.Pid)
	clitest.Run(t, "fault", "clear", "--pid", pid)
	clitest.Start(t, read...).Succeeds()
	clitest.Run(t, "fault", "add", "--pid", pid, badBlock(t))
	clitest.Start(t, read...).Fails(cli.ExitFailed, "NVME_SC_READ_ERROR")
	// The host asks five times again.
	if out := clitest.Run(t, "fault", "list", "--pid", pid); !strings.Contains(out, "fail-command  6 hits") {
		t.Errorf("the list of rules is %q", out)
	}
}

// secrets is a file with the secret of a host, some times.
func secrets(t *testing.T, times int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets")
	line := "nqn.h DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, times)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHostWithoutItsSecretIsRefused(t *testing.T) {
	at := clitest.ServerAddress(t)
	serve(t, at, "--namespace", "memory,1M", "--dhchap-secret", secrets(t, 1))
	clitest.Start(t, "nvme", "list", "-n", nqn, at).Fails(cli.ExitFailed, "NVME_SC_CONNECT_INVALID_HOST")
	clitest.Start(t, "nvme", "list", "-n", nqn, "--host", "nqn.h", at).Fails(cli.ExitFailed, "the controller expects a secret")
	clitest.Run(t, "nvme", "bench", "-n", nqn, "--host", "nqn.h", "--dhchap-secret", secrets(t, 1), "--iters", "1", at)
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, x := range []struct {
		word string
		args []string
	}{
		{"--namespace FILE", []string{"serve", "-n", nqn}},
		{"expected 1 to 223 bytes, found 224", []string{"serve", "-n", strings.Repeat("n", 224), "--namespace", "memory,1M"}},
		{"expected a size", []string{"serve", "-n", nqn, "--namespace", "memory,1M,rw"}},
		{"power of two", []string{"serve", "-n", nqn, "--namespace", "memory,1M,block=1000"}},
		{"--faults: name the device with -a ADDR", []string{"serve", "-n", nqn, "--namespace", "memory,1M", "--faults", badBlock(t)}},
		{"line 2: expected each name once", []string{"serve", "-n", nqn, "--namespace", "memory,1M", "--dhchap-secret", secrets(t, 2)}},
		{"the HOST of the target", []string{"discover"}},
		{"subsystem", []string{"list", "127.0.0.1"}},
	} {
		clitest.Start(t, append([]string{"nvme"}, x.args...)...).Fails(cli.ExitUsage, x.word)
	}
}
