package perf

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// The server takes the protocol of the client, whether --protocol or -d gives it.
func TestPerfIWARP(t *testing.T) {
	for _, args := range []string{
		"write bw -q 3 -n 100", "send bw -b -q 2 -s 3000 -n 200", "read bw -n 100", "write lat -n 50", "send lat -n 50 -e", "atomic bw -n 300",
		"send bw -a -n 3 -t 4",
	} {
		t.Run(args, func(t *testing.T) {
			list, port := strings.Fields(args), clitest.FreePort(t)
			server := clitest.Start(t, "perf", list[0], list[1], "-p", port)
			server.Prints("waiting for a client")
			client := clitest.Start(t, append(append([]string{"perf"}, list...), "-p", port, "--protocol", "iwarp", "127.0.0.1")...)
			if out := client.Succeeds(); !strings.Contains(out, "#bytes") {
				t.Errorf("expected a result, found\n%s", out)
			}
			server.Succeeds()
		})
	}
	clitest.Start(t, "perf", "write", "bw", "--protocol", "tcp", "localhost").Fails(cli.ExitUsage, "--protocol")
}
