package perf

import (
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
)

// Neither TCP nor, behind an adapter, the transport notices a stopped program, so both
// ends send keep-alive messages.
func TestPerfNoticesSuspendedPeer(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			server, client := startPair(t, "write", "bw", "-D", "60")
			server.Prints("measures write bw")
			stops, lives := client, server
			if who == "server" {
				stops, lives = server, client
			}
			stops.Suspend()
			start := time.Now()
			lives.Fails(cli.ExitPeer, "")
			if d := time.Since(start); d > 40*time.Second {
				t.Errorf("the other end took %v to notice", d)
			}
		})
	}
}
