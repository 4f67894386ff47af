package cat

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestCatIWARP(t *testing.T) {
	at := clitest.LoopbackDevice(t)
	server := startListener(t, at, strings.NewReader("from the server"), "--protocol", "iwarp")
	client := clitest.Prepare(t, "cat", "--protocol", "iwarp", at, "7000")
	client.Cmd.Stdin = strings.NewReader("from the client")
	client.Start()
	if got := client.Succeeds() + "|" + string(server.Output()); got != "from the server|from the client" {
		t.Errorf("found %q", got)
	}
}
