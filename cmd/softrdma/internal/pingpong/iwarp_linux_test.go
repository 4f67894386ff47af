package pingpong

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestPingpongIWARP(t *testing.T) {
	at, port := clitest.LoopbackDevice(t), clitest.FreePort(t) // the default port may be another program's
	server := clitest.Start(t, "pingpong", "-R", "-d", "iwarp:"+at, "-p", port, "-c")
	server.Prints("waiting")
	if out := clitest.Run(t, "pingpong", "-R", "--protocol", "iwarp", "-p", port, "-c", at); !strings.Contains(out, "1000 iters") || strings.Contains(out, "LID") {
		t.Errorf("unexpected %s", out)
	}
	server.Succeeds()
}
