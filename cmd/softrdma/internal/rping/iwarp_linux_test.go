package rping

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestRpingIWARP(t *testing.T) {
	at := clitest.LoopbackDevice(t)
	server := clitest.Start(t, "rping", "-s", "-a", at, "--protocol", "iwarp", "-V")
	server.Prints("waiting")
	if out := clitest.Run(t, "rping", "-c", "-a", at, "-I", "iwarp:127.0.0.1", "-C", "5", "-V"); !strings.Contains(out, "5 pings of 64 bytes") {
		t.Errorf("unexpected %s", out)
	}
	server.Succeeds()
}
