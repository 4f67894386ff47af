package pingpong

import (
	"os"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// Without -d the best address is a device of the protocol. Only root may open one of RoCE v1.
func TestProtocolWithoutDeviceChoosesTheBest(t *testing.T) {
	args := []string{"pingpong", "--protocol", "roce1", "-p", clitest.FreePort(t)}
	start := clitest.Start
	if os.Geteuid() == 0 {
		start = clitest.StartAsNobody
	}
	start(t, args...).Fails(cli.ExitFailed, "raw Ethernet socket", "CAP_NET_RAW")
}
