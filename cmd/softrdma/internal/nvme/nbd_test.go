package nvme

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// serveNBD serves namespace 1 of a target on a Unix socket.
func serveNBD(t *testing.T, at string, flags ...string) (p *clitest.Process, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "nbd")
	p = clitest.Start(t, append([]string{"nvme", "serve-nbd", "-n", nqn, "--socket", socket, at}, flags...)...)
	p.Prints("serving namespace 1")
	return p, socket
}

func TestNBDArgumentsAreChecked(t *testing.T) {
	for _, x := range [][]string{{}, {"--socket", "x", "--listen", "127.0.0.1:0"}, {"--listen", "0.0.0.0:10809"}, {"--listen", "localhost"}} {
		clitest.Start(t, append([]string{"nvme", "serve-nbd", "-n", nqn, "127.0.0.1"}, x...)...).Fails(cli.ExitUsage, "--listen")
	}
}

func TestNBDIsServedOnLoopback(t *testing.T) {
	at := clitest.ServerAddress(t)
	serve(t, at, "--namespace", "memory,1M")
	p := clitest.Start(t, "nvme", "serve-nbd", "-n", nqn, "--listen", "127.0.0.1:0", at)
	p.Prints("serving namespace 1, 1048576 bytes, at 127.0.0.1:")
	_, socket := serveNBD(t, at)
	if !strings.HasSuffix(socket, "nbd") {
		t.Error(socket)
	}
}
