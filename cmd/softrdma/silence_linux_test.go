package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// stop stops a process as Ctrl-Z does; it goes on at the end of the test, to be ended.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
}

// TestPerfPeerThatStops: neither TCP nor, behind an adapter, the transport tells of a
// program that is stopped, so both ends say every second that they are there.
func TestPerfPeerThatStops(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			server, client := perfPair(t, "write", "bw", "-D", "60")
			server.prints("measures write bw")
			stops, lives := client, server
			if who == "server" {
				stops, lives = server, client
			}
			stops.stop()
			start := time.Now()
			lives.fails(exitPeer, "")
			if d := time.Since(start); d > 40*time.Second {
				t.Errorf("the other end took %v to notice", d)
			}
		})
	}
}

// TestCatIdleReceiverNoticesKilledSender: nothing is under way when the sender dies.
func TestCatIdleReceiverNoticesKilledSender(t *testing.T) {
	for _, protocol := range []string{"roce"} {
		t.Run(protocol, func(t *testing.T) {
			at := loopbackDevice(t)
			in, never, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer never.Close()
			s := catWaits(t, at, nil, "--protocol", protocol)
			c := catGoes(t, at, in, "--protocol", protocol)
			s.tells("connected")
			time.Sleep(time.Second)
			start := time.Now()
			c.cmd.Process.Kill()
			if got := s.code(); got != exitPeer {
				t.Errorf("code %d, expected %d; it printed\n%s", got, exitPeer, &s.stderr)
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Logf("the receiver took %v to notice", d)
				if d > 20*time.Second {
					t.Error("which is too long on any machine")
				}
			}
		})
	}
}
