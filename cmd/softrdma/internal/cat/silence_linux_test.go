package cat

import (
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// idleReceiver starts a cat that only receives, from one that has nothing to send.
func idleReceiver(t *testing.T, protocol string) (receiver, sender *clitest.Process) {
	t.Helper()
	in, never, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), never.Close() })
	at := clitest.LoopbackDevice(t)
	receiver = startListener(t, at, nil, "--protocol", protocol)
	sender = startDialer(t, at, in, "--protocol", protocol)
	receiver.PrintsError("connected")
	return receiver, sender
}

// Nothing is in flight when the sender is killed.
func TestCatIdleReceiverNoticesKilledSender(t *testing.T) {
	for _, protocol := range []string{"roce", "iwarp"} {
		t.Run(protocol, func(t *testing.T) {
			s, c := idleReceiver(t, protocol)
			time.Sleep(time.Second)
			start := time.Now()
			c.Cmd.Process.Kill()
			if got := s.ExitCode(); got != cli.ExitPeer {
				t.Errorf("code %d, expected %d; it printed\n%s", got, cli.ExitPeer, &s.Stderr)
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

// On RoCE retries end after 14 s. On iWARP, where the sender's system keeps answering,
// the limit is the same.
func TestCatIdleReceiverNoticesStoppedSender(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 15 seconds")
	}
	for protocol, cause := range map[string]string{"roce": "RETRY_EXC_ERR", "iwarp": "PEER_SILENT"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s, c := idleReceiver(t, protocol)
			c.Suspend()
			start := time.Now()
			if got, text := s.ExitCode(), s.Stderr.String(); got != cli.ExitPeer || !strings.Contains(text, cause) {
				t.Errorf("code %d, expected %d and %s; it printed\n%s", got, cli.ExitPeer, cause, text)
			}
			t.Logf("the receiver took %v to notice", time.Since(start))
		})
	}
}
