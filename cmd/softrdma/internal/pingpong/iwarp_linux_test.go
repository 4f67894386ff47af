package pingpong

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestPingpongIWARP(t *testing.T) {
	at := clitest.LoopbackDevice(t)
	server := clitest.Start(t, "pingpong", "-R", "-d", "iwarp:"+at, "-c")
	server.Prints("waiting")
	if out := clitest.Run(t, "pingpong", "-R", "--protocol", "iwarp", "-c", at); !strings.Contains(out, "1000 iters") || strings.Contains(out, "LID") {
		t.Errorf("unexpected %s", out)
	}
	server.Succeeds()
}
