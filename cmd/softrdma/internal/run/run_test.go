//go:build unix

package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// ranks returns a run of this program as ranks with a role.
func ranks(t *testing.T, what string, flags ...string) *clitest.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--env", role + "=" + what}, flags...)
	return clitest.Prepare(t, append(args, "--", self)...)
}

// remotely returns flags that make this host two hosts, and use the same programs on both.
func remotely(t *testing.T) []string {
	t.Helper()
	stand := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(stand, []byte("#!/bin/sh\nshift\nexec sh -c \"$*\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"--hosts", "one:2,two:2", "--ssh", stand, "--remote", clitest.Command(t), "--address", "127.0.0.1"}
}

func sorted(out string) []string {
	list := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Sort(list)
	return list
}

func TestRanksFormAGroup(t *testing.T) {
	device := clitest.LoopbackDevice(t)
	network := device[:strings.LastIndexByte(device, '.')+1]
	secret := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(secret, []byte("a secret of all ranks"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"one host":       {"-n", "4"},
		"two hosts":      append(remotely(t), "--device", network+"20{rank}"),
		"encrypted":      append(remotely(t), "--device", network+"22{rank}", "--psk-file", secret),
		"with this host": append(remotely(t), "--hosts", "localhost:2,two:2", "--device", network+"21{rank}"),
	} {
		t.Run(name, func(t *testing.T) {
			p := ranks(t, "sum", append(flags, "--label")...)
			p.Start()
			want := []string{"[0] rank 0: sum 6", "[1] rank 1: sum 6", "[2] rank 2: sum 6", "[3] rank 3: sum 6"}
			if got := sorted(p.Succeeds()); !slices.Equal(got, want) {
				t.Errorf("%q, expected %q", got, want)
			}
		})
	}
}

// A rank that fails ends the others and gives its exit code.
func TestFailedRankEndsTheOthers(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags []string
		hosts [3]string // of ranks 1 and 2
	}{
		"one host":  {[]string{"-n", "3"}, [3]string{1: host, 2: host}},
		"two hosts": {remotely(t), [3]string{1: "one", 2: "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := ranks(t, "fail", c.flags...)
			p.Start()
			p.Fails(7, "rank 1 on "+c.hosts[1], "exit code 7")
			p = ranks(t, "killed", c.flags...)
			p.Start()
			p.Fails(128+9, "rank 2 on "+c.hosts[2], "killed")
		})
	}
}

// A rank that does not exchange its address is named, also by the rank that waits for it.
func TestRankThatDoesNotComeIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		role  string
		flags []string
		want  string
	}{
		"in time":   {"absent", []string{"-n", "2", "--exchange-timeout", "50ms"}, " within 50ms, found none of rank 1"},
		"at all":    {"early", []string{"-n", "2"}, ", found that rank 1 ended without giving one"},
		"two hosts": {"early", append(remotely(t), "--hosts", "one,two"), ", found that rank 1 ended without giving one"},
	} {
		t.Run(name, func(t *testing.T) {
			p := ranks(t, c.role, c.flags...)
			p.Start()
			if code := p.ExitCode(); code != 1 {
				t.Errorf("exit code %d, expected that of rank 0, 1", code)
			}
			want := "expected the addresses of 2 ranks" + c.want
			if said := p.Stderr.String(); strings.Count(said, want) != 2 || !strings.Contains(said, "softrdma: rank 0 on") {
				t.Errorf("expected rank 0 and softrdma to say %q, found\n%s", want, said)
			}
		})
	}
}

func TestSignalsReachAllRanks(t *testing.T) {
	for name, flags := range map[string][]string{"one host": {"-n", "4"}, "two hosts": remotely(t)} {
		t.Run(name, func(t *testing.T) {
			p := ranks(t, "signal", flags...)
			p.Start()
			p.Prints(strings.Repeat("waiting\n", 4))
			if err := p.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if out := p.Succeeds(); strings.Count(out, "got user defined signal 1\n") != 4 {
				t.Errorf("found %q", out)
			}
			p = ranks(t, "wait", flags...)
			p.Start()
			p.Prints(strings.Repeat("waiting\n", 4))
			if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.Fails(cli.ExitTerminated, "terminated")
		})
	}
}

// Rank 0 has all of standard input, the others have none.
func TestInputGoesToRank0(t *testing.T) {
	for name, flags := range map[string][]string{"one host": {"-n", "4"}, "two hosts": remotely(t)} {
		t.Run(name, func(t *testing.T) {
			p := ranks(t, "input", append(flags, "--label")...)
			p.Cmd.Stdin = strings.NewReader(strings.Repeat("x", 300_000))
			p.Start()
			want := []string{"[0] 300000 bytes, <nil>", "[1] 0 bytes, <nil>", "[2] 0 bytes, <nil>", "[3] 0 bytes, <nil>"}
			if got := sorted(p.Succeeds()); !slices.Equal(got, want) {
				t.Errorf("%q, expected %q", got, want)
			}
		})
	}
}

// The flags of TLS reach ranks on all hosts as names of files, which do not depend on the directory.
func TestFilesOfTLSReachRanks(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("psk", []byte("a secret of all ranks"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := ranks(t, "secret", append(remotely(t), "-n", "3", "--psk-file", "psk")...)
	p.Start()
	if out, want := p.Succeeds(), strings.Repeat(filepath.Join(dir, "psk")+"\n", 3); out != want {
		t.Errorf("%q, expected %q", out, want)
	}
}

func TestEnvironmentOfRanks(t *testing.T) {
	p := ranks(t, "device", append(remotely(t), "-n", "3", "--device", "d{rank}.{local}", "--env", "EXTRA=more words")...)
	p.Start()
	want := []string{"d0.0 0 2 more words", "d1.1 1 2 more words", "d2.0 0 1 more words"}
	if got := sorted(p.Succeeds()); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestWrongRunsAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{[]string{"-n", "2"}, 2, "expected a PROGRAM"},
		{[]string{"-n", "-1", "true"}, 2, "-n: expected"},
		{[]string{"--hosts", "a:0", "true"}, 2, `found "a:0"`},
		{[]string{"--hosts", "a,-x", "true"}, 2, `found "-x"`},
		{[]string{"--hosts", "a", "-n", "2", "true"}, 2, "room for 1 ranks"},
		{[]string{"--exchange-timeout", "0s", "true"}, 2, "expected a positive duration"},
		{[]string{"-n", "0", "true"}, 2, "-n: expected 1 to"},
		{[]string{"--psk-file", "", "true"}, 2, "--psk-file: expected the name of a file"},
		{[]string{"--psk-file", "no-such-file", "true"}, 1, "--psk-file: open no-such-file"},
		{[]string{"--psk-file", "x", "--tls-ca", "x", "true"}, 2, "either a secret or certificates"},
		{[]string{"--tls-ca", "x", "true"}, 2, "--tls-key"},
		{[]string{"./no-such-program"}, 127, "rank 0 on"},
		{[]string{"no-such-program"}, 127, "rank 0 on"},
		{[]string{"/"}, 126, "rank 0 on"},
		{[]string{"--hosts", "one", "--ssh", "false", "--address", "127.0.0.1", "true"}, 3, "host one: false"},
		{[]string{"--agent"}, 2, "expected a job"},
	} {
		clitest.Start(t, append([]string{"run"}, c.args...)...).Fails(c.code, c.word)
	}
}

// A host without softrdma is named, and so is the flag that helps.
func TestHostWithoutSoftrdmaIsNamed(t *testing.T) {
	p := clitest.Start(t, append(append([]string{"run"}, remotely(t)...), "--remote", "no-such-softrdma", "true")...)
	if code, out := p.ExitCode(), p.Stderr.String(); code != 3 || !strings.Contains(out, "expected no-such-softrdma there") || !strings.Contains(out, "--remote") {
		t.Errorf("code %d: %s", code, out)
	}
}
