package pingpong

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/verbs"
)

// startManagedPair starts a server with -R and, when it waits, a client.
func startManagedPair(t *testing.T, server, client string) pair {
	t.Helper()
	at := clitest.ServerAddress(t)
	s := clitest.Start(t, append([]string{"pingpong", "-R", "-d", at}, strings.Fields(server)...)...)
	s.Prints("waiting for a client on " + at + " port 18515")
	c := clitest.Start(t, append([]string{"pingpong", "-R", "-d", clitest.LoopbackDevice(t), at}, strings.Fields(client)...)...)
	return pair{s, c}
}

func TestPingpongManaged(t *testing.T) {
	for _, flags := range []string{"-c -n 200", "-c -e -n 200 -l 3", "-n 20 -s 1M", "-n 50 -s 1 -r 4"} {
		t.Run(flags, func(t *testing.T) {
			p := startManagedPair(t, flags, flags)
			client, server := p.client.Succeeds(), p.server.Succeeds()
			if reportLines.FindString(client) == "" || reportLines.FindString(server) == "" {
				t.Errorf("expected reports, found\n%s%s", client, server)
			}
			// Each side's local queue pair is the other side's remote one.
			here, there := addressLine(t, client, "local address:  "), addressLine(t, client, "remote address: ")
			if here != addressLine(t, server, "remote address: ") || there != addressLine(t, server, "local address:  ") {
				t.Errorf("the sides differ about their queue pairs:\n%s%s", client, server)
			}
		})
	}
}

func addressLine(t *testing.T, out, side string) string {
	t.Helper()
	_, rest, found := strings.Cut(out, side)
	line, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.Contains(line, "QPN 0x") {
		t.Errorf("expected a line of %q, found\n%s", side, out)
	}
	return line
}

func TestPingpongManagedSidesDisagree(t *testing.T) {
	for server, client := range map[string]string{"-s 100": "-s 101", "-n 10": "-n 11"} {
		p := startManagedPair(t, server, client)
		for _, side := range []*clitest.Process{p.server, p.client} {
			code := cli.ExitFailed
			if side == p.client {
				code = cli.ExitPeer
			}
			side.Fails(code, "expected the same settings at both sides", server, client)
		}
	}
}

func TestPingpongManagedRejectsOtherPrograms(t *testing.T) {
	at := clitest.ServerAddress(t)
	s := clitest.Start(t, "pingpong", "-R", "-d", at)
	s.Prints("waiting")
	clitest.Start(t, "rping", "-c", "-a", at, "-p", "18515", "-I", clitest.LoopbackDevice(t)).Fails(cli.ExitPeer, at+":18515 refused the connection: expected softrdma pingpong -R")
	s.Fails(cli.ExitFailed, "found another program")
}

func TestPingpongManagedWithoutServer(t *testing.T) {
	at := clitest.ServerAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "pingpong", "-R", "-d", clitest.LoopbackDevice(t), "--timeout", "1h", at).Fails(cli.ExitPeer, "nothing listens at "+at+":18515", `"softrdma pingpong -R"`)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "pingpong", "-R", "-d", clitest.LoopbackDevice(t), "--timeout", "300ms", at).Fails(cli.ExitPeer, "no answer from "+at+":18515 within 300ms")
	clitest.Start(t, "pingpong", "-R", "host.invalid").Fails(cli.ExitPeer, "host.invalid")
}

func TestPingpongManagedPeerEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for sig, timeout := range map[os.Signal]string{os.Interrupt: "20s", os.Kill: "1s"} {
		p := startManagedPair(t, "-n 1000000000", "-n 1000000000 --timeout "+timeout)
		p.client.Prints("remote address")
		p.server.Cmd.Process.Signal(sig)
		if sig == os.Interrupt {
			p.server.Fails(cli.ExitInterrupted, "interrupted")
			p.client.Fails(cli.ExitPeer, "disconnected by")
		} else {
			p.client.Fails(cli.ExitPeer)
		}
		<-p.server.Ended
		clitest.CheckFree(t, p.server.Cmd.Args[4], clitest.FreePort(t))
	}
	at := clitest.ServerAddress(t)
	s := clitest.Start(t, "pingpong", "-R", "-d", at)
	s.Prints("waiting")
	s.Cmd.Process.Signal(os.Interrupt)
	s.Fails(cli.ExitInterrupted, "interrupted")
	clitest.CheckFree(t, at, clitest.FreePort(t))
}

func TestPingpongManagedCapture(t *testing.T) {
	dir := t.TempDir()
	at := clitest.ServerAddress(t)
	s := clitest.Start(t, "pingpong", "-R", "-n", "5", "-d", at, "--pcap", filepath.Join(dir, "s"))
	s.Prints("waiting")
	clitest.Run(t, "pingpong", "-R", "-n", "5", "--pcap", filepath.Join(dir, "c"), at)
	s.Succeeds()
	for _, file := range []string{"s", "c"} {
		out := clitest.Run(t, "capture", "--strict", filepath.Join(dir, file))
		if !strings.Contains(out, "RC SEND") || !strings.Contains(out, "0x80010000") || !strings.Contains(out, "0 faults") {
			t.Errorf("expected connection and messages, found\n%s", out)
		}
	}
}

func TestPingpongManagedWrongArguments(t *testing.T) {
	for args, word := range map[string]string{
		"-t ud": "-t rc", "-t uc": "-t rc", "-t srq": "-t rc", "-m 512": "--mtu", "-g 0": "--gid-idx", "-p 0": "-p", "--pcap x": "-d",
	} {
		clitest.Start(t, append([]string{"pingpong", "-R"}, strings.Fields(args)...)...).Fails(cli.ExitUsage, word)
	}
}
