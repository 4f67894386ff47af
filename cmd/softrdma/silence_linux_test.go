package main

import (
	"os"
	"strings"
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

// idleReceiver starts a cat that only receives from one that has nothing to send.
func idleReceiver(t *testing.T, protocol string) (receiver, sender *process) {
	t.Helper()
	in, never, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), never.Close() })
	at := loopbackDevice(t)
	receiver = catWaits(t, at, nil, "--protocol", protocol)
	sender = catGoes(t, at, in, "--protocol", protocol)
	receiver.tells("connected")
	return receiver, sender
}

// TestCatIdleReceiverNoticesKilledSender: nothing is under way when the sender dies.
func TestCatIdleReceiverNoticesKilledSender(t *testing.T) {
	for _, protocol := range []string{"roce", "iwarp"} {
		t.Run(protocol, func(t *testing.T) {
			s, c := idleReceiver(t, protocol)
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

// TestCatIdleReceiverNoticesStoppedSender: RoCE's retries end after 14 s, and as long a
// sender over iWARP may be silent, whose system goes on answering for it.
func TestCatIdleReceiverNoticesStoppedSender(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 15 seconds")
	}
	for protocol, cause := range map[string]string{"roce": "RETRY_EXC_ERR", "iwarp": "PEER_SILENT"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s, c := idleReceiver(t, protocol)
			c.stop()
			start := time.Now()
			if got, text := s.code(), s.stderr.String(); got != exitPeer || !strings.Contains(text, cause) {
				t.Errorf("code %d, expected %d and %s; it printed\n%s", got, exitPeer, cause, text)
			}
			t.Logf("the receiver took %v to notice", time.Since(start))
		})
	}
}
