package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"softrdma/verbs"
)

// managedPair starts a server with -R and, when it waits, a client.
func managedPair(t *testing.T, server, client string) pair {
	t.Helper()
	at := serverAddress(t)
	s := start(t, append([]string{"pingpong", "-R", "-d", at}, strings.Fields(server)...)...)
	s.prints("waiting for a client on " + at + " port 18515")
	c := start(t, append([]string{"pingpong", "-R", "-d", loopbackDevice(t), at}, strings.Fields(client)...)...)
	return pair{s, c}
}

func TestPingpongManaged(t *testing.T) {
	for _, flags := range []string{"-c -n 200", "-c -e -n 200 -l 3", "-n 20 -s 1M", "-n 50 -s 1 -r 4"} {
		t.Run(flags, func(t *testing.T) {
			p := managedPair(t, flags, flags)
			client, server := p.client.succeeds(), p.server.succeeds()
			if reportLines.FindString(client) == "" || reportLines.FindString(server) == "" {
				t.Errorf("expected reports, found\n%s%s", client, server)
			}
			// Each side's own queue pair is what the other calls the remote one.
			here, there := pingpongLine(t, client, "local address:  "), pingpongLine(t, client, "remote address: ")
			if here != pingpongLine(t, server, "remote address: ") || there != pingpongLine(t, server, "local address:  ") {
				t.Errorf("the sides differ about their queue pairs:\n%s%s", client, server)
			}
		})
	}
}

func pingpongLine(t *testing.T, out, side string) string {
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
		p := managedPair(t, server, client)
		for _, side := range []*process{p.server, p.client} {
			code := exitFailed
			if side == p.client {
				code = exitPeer
			}
			side.fails(code, "expected the same at both sides", server, client)
		}
	}
}

func TestPingpongManagedStranger(t *testing.T) {
	at := serverAddress(t)
	s := start(t, "pingpong", "-R", "-d", at)
	s.prints("waiting")
	start(t, "rping", "-c", "-a", at, "-p", "18515", "-I", loopbackDevice(t)).fails(exitPeer, at+":18515 refuses: expected a softrdma pingpong -R")
	s.fails(exitFailed, "found another program")
}

func TestPingpongManagedNobodyThere(t *testing.T) {
	at := serverAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, "pingpong", "-R", "-d", loopbackDevice(t), "--timeout", "1h", at).fails(exitPeer, "nobody waits at "+at+":18515", `"softrdma pingpong -R"`)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, "pingpong", "-R", "-d", loopbackDevice(t), "--timeout", "300ms", at).fails(exitPeer, "no answer from "+at+":18515 within 300ms")
	start(t, "pingpong", "-R", "host.invalid").fails(exitPeer, "host.invalid")
}

func TestPingpongManagedPeerEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		p := managedPair(t, "-n 1000000000", "-n 1000000000 --timeout 1s")
		p.client.prints("remote address")
		p.server.cmd.Process.Signal(sig)
		if sig == os.Interrupt {
			p.server.fails(exitInterrupted, "interrupted")
			p.client.fails(exitPeer, "disconnected by")
		} else {
			p.client.fails(exitPeer)
		}
		<-p.server.ended
		checkFree(t, p.server.cmd.Args[4], freePort(t))
	}
	at := serverAddress(t)
	s := start(t, "pingpong", "-R", "-d", at)
	s.prints("waiting")
	s.cmd.Process.Signal(os.Interrupt)
	s.fails(exitInterrupted, "interrupted")
	checkFree(t, at, freePort(t))
}

func TestPingpongManagedCapture(t *testing.T) {
	dir := t.TempDir()
	at := serverAddress(t)
	s := start(t, "pingpong", "-R", "-n", "5", "-d", at, "--pcap", filepath.Join(dir, "s"))
	s.prints("waiting")
	run(t, "pingpong", "-R", "-n", "5", "--pcap", filepath.Join(dir, "c"), at)
	s.succeeds()
	for _, file := range []string{"s", "c"} {
		out := run(t, "capture", "--strict", filepath.Join(dir, file))
		if !strings.Contains(out, "RC SEND") || !strings.Contains(out, "0x80010000") || !strings.Contains(out, "0 faults") {
			t.Errorf("expected connection and messages, found\n%s", out)
		}
	}
}

func TestPingpongManagedWrongArguments(t *testing.T) {
	for args, word := range map[string]string{
		"-t ud": "-t rc", "-t uc": "-t rc", "-t srq": "-t rc", "-m 512": "--mtu", "-g 0": "--gid-idx", "-p 0": "-p", "--pcap x": "-d",
	} {
		start(t, append([]string{"pingpong", "-R"}, strings.Fields(args)...)...).fails(exitUsage, word)
	}
}
