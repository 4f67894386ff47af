package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// If a capture cannot be written, every command fails, even if its peer received
// everything.
func TestUnwritableCaptureFails(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		testenv.Lacks(t, "/dev/full")
	}
	wants := func(p *clitest.Process) {
		t.Helper()
		if code, text := p.ExitCode(), p.Stderr.String(); code != cli.ExitFailed || !strings.Contains(text, "--pcap") || !strings.Contains(text, "no space left") {
			t.Errorf("softrdma %v: code %d, expected %d and the capture's error: %s", p.Cmd.Args[1:], code, cli.ExitFailed, text)
		}
	}
	at, port := clitest.LoopbackDevice(t), clitest.FreePort(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", at, "--pcap", "/dev/full")
	server.Prints("waiting")
	wants(clitest.Start(t, "perf", "write", "bw", "-n", "100", "-p", port, "-d", clitest.LoopbackDevice(t), "--pcap", "/dev/full", "127.0.0.1"))
	wants(server)

	server = clitest.Start(t, "rping", "-s", "-a", at, "--pcap", "/dev/full")
	server.Prints("waiting")
	wants(clitest.Start(t, "rping", "-c", "-a", at, "-C", "3", "--pcap", "/dev/full"))
	wants(server)

	server = clitest.Start(t, "pingpong", "-R", "-n", "10", "-d", at, "--pcap", "/dev/full")
	server.Prints("waiting")
	wants(clitest.Start(t, "pingpong", "-R", "-n", "10", "--pcap", "/dev/full", at))
	wants(server)

	wants(clitest.Start(t, "demo", "--size", "1M", "--pcap", "/dev/full"))
}

// A file that reaches a size limit is truncated.
func TestTruncatedCaptureFails(t *testing.T) {
	at, port, file := clitest.LoopbackDevice(t), clitest.FreePort(t), filepath.Join(t.TempDir(), "x.pcapng")
	server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", at)
	server.Prints("waiting")
	p := clitest.Prepare(t)
	p.Cmd = exec.Command("sh", "-c", `ulimit -f 100; exec "$0" "$@"`, clitest.Command(t), "perf", "write", "bw", "-n", "100", "-p", port, "-d", clitest.LoopbackDevice(t), "--pcap", file, "127.0.0.1")
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	p.Start()
	p.Fails(cli.ExitFailed, "--pcap", "file too large")
	server.Succeeds()
}

func TestUnwritableStandardOutputFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.Lacks(t, "/dev/full")
	}
	defer full.Close()
	for _, args := range []string{"devices", "devices --json", "explain FLUSHED", "--version", "help exit-codes", "fault schema"} {
		p := clitest.Prepare(t, strings.Fields(args)...)
		p.Cmd.Stdout = full
		p.Start()
		p.Fails(cli.ExitFailed, "no space left")
	}
}
