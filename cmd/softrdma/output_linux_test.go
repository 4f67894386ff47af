package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A capture that the disk has no room for ends every command with an error, also
// one whose peer got all that it wanted.
func TestCaptureThatCannotBeWrittenIsAFailure(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		lacks(t, "/dev/full")
	}
	wants := func(p *process) {
		t.Helper()
		if code, text := p.code(), p.stderr.String(); code != exitFailed || !strings.Contains(text, "--pcap") || !strings.Contains(text, "no space left") {
			t.Errorf("softrdma %v: code %d, expected %d and the capture's error: %s", p.cmd.Args[1:], code, exitFailed, text)
		}
	}
	at, port := loopbackDevice(t), freePort(t)
	server := start(t, "perf", "write", "bw", "-p", port, "-d", at, "--pcap", "/dev/full")
	server.prints("waiting")
	wants(start(t, "perf", "write", "bw", "-n", "100", "-p", port, "-d", loopbackDevice(t), "--pcap", "/dev/full", "127.0.0.1"))
	wants(server)

	server = start(t, "rping", "-s", "-a", at, "--pcap", "/dev/full")
	server.prints("waiting")
	wants(start(t, "rping", "-c", "-a", at, "-C", "3", "--pcap", "/dev/full"))
	wants(server)

	server = start(t, "pingpong", "-R", "-n", "10", "-d", at, "--pcap", "/dev/full")
	server.prints("waiting")
	wants(start(t, "pingpong", "-R", "-n", "10", "--pcap", "/dev/full", at))
	wants(server)

	wants(start(t, "demo", "--size", "1M", "--pcap", "/dev/full"))
}

// A file that grows up to a limit is cut there.
func TestCaptureThatIsCutIsAFailure(t *testing.T) {
	at, port, file := loopbackDevice(t), freePort(t), filepath.Join(t.TempDir(), "x.pcapng")
	server := start(t, "perf", "write", "bw", "-p", port, "-d", at)
	server.prints("waiting")
	p := prepare(t)
	p.cmd = exec.Command("sh", "-c", `ulimit -f 100; exec "$0" "$@"`, builtCommand, "perf", "write", "bw", "-n", "100", "-p", port, "-d", loopbackDevice(t), "--pcap", file, "127.0.0.1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.start()
	p.fails(exitFailed, "--pcap", "file too large")
	server.succeeds()
}

func TestStandardOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		lacks(t, "/dev/full")
	}
	defer full.Close()
	for _, args := range []string{"devices", "devices --json", "explain FLUSHED", "--version", "help exit-codes", "demo --json --size 1M"} {
		p := prepare(t, strings.Fields(args)...)
		p.cmd.Stdout = full
		p.start()
		p.fails(exitFailed, "no space left")
	}
}
