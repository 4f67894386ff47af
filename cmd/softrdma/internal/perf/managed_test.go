package perf

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestPerfManaged(t *testing.T) {
	for _, args := range []string{"write bw -q 3 -n 100", "send bw -b -q 2 -s 3000 -n 200 -e", "read lat -n 50", "atomic bw -n 300"} {
		t.Run(args, func(t *testing.T) {
			server, client := startPair(t, append(strings.Fields(args), "-R")...)
			if out := client.Succeeds(); !strings.Contains(out, "#bytes") {
				t.Errorf("expected a result, found\n%s", out)
			}
			server.Succeeds()
		})
	}
	clitest.Start(t, "perf", "write", "bw", "-R", "-m", "1024", "localhost").Fails(cli.ExitUsage, "-m")
}

// With -R the packets of the connection manager are on the wire.
func TestPerfManagedConnectsThroughQueuePairOne(t *testing.T) {
	for managed, want := range map[string]bool{"-R": true, "-R=false": false} {
		file := filepath.Join(t.TempDir(), "x.pcapng")
		server, client := startPair(t, "send", "lat", "-n", "5", managed, "--pcap", file)
		client.Succeeds()
		server.Succeeds()
		out := clitest.Run(t, "capture", "--strict", file)
		if got := strings.Contains(out, "QP 0x000001 PSN"); got != want || !strings.Contains(out, "RC SEND") {
			t.Errorf("%s: queue pair 1 on the wire: expected %v, found %v in\n%s", managed, want, got, out)
		}
	}
}
