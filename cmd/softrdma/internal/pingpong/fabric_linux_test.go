package pingpong

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/fabrictest"
)

// Ports of a fabric reach each other by LID, without a GRH unless -g asks for one.
func TestPingpongOnAFabric(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	for _, args := range [][]string{{"-t", "rc"}, {"-t", "uc"}, {"-t", "ud"}, {"-t", "srq"}, {"-g", "0"}} {
		port := clitest.FreePort(t)
		args = append([]string{"pingpong", "-p", port, "-n", "100", "-c"}, args...)
		server := clitest.Start(t, append(args, "-d", "ib:"+f.Adapters[0])...)
		server.Prints("local address:  LID 0x0002")
		out := clitest.Run(t, append(args, "-d", "ib:"+f.Adapters[1], "127.0.0.1")...)
		if !strings.Contains(out, "100 iters") || strings.Contains(out, "GID ::\n") == (args[6] == "-g") {
			t.Errorf("%q printed\n%s", args, out)
		}
		server.Succeeds()
	}
}

func TestPingpongBetweenFabricAndRoCEIsRefused(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	port := clitest.FreePort(t)
	server := clitest.Start(t, "pingpong", "-p", port, "-d", "ib:"+f.Adapters[0])
	server.Prints("local address")
	clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t), "127.0.0.1").ExitCode()
	if server.ExitCode(); !strings.Contains(server.Stderr.String(), "no port of an InfiniBand fabric") {
		t.Errorf("the server printed %s", &server.Stderr)
	}
}
