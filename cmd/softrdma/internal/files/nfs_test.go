package files

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// The port of MOUNT that is printed is the one that was chosen for 0.
func TestChosenMountPortIsPrinted(t *testing.T) {
	at := clitest.ServerAddress(t)
	p := clitest.Start(t, "serve-nfs", "-a", at, "--mount-port", "0", t.TempDir())
	p.Prints("MOUNT on TCP port ")
	p.Prints("\n")
	var port int
	for lines := bufio.NewScanner(strings.NewReader(p.Stdout.String())); lines.Scan(); {
		if _, after, found := strings.Cut(lines.Text(), "MOUNT on TCP port "); found {
			if _, err := fmt.Sscan(after, &port); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := net.Dial("tcp", net.JoinHostPort(at, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
