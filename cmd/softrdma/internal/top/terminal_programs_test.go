//go:build interop && linux

package top

import (
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
)

// The view in a terminal: from a user without programs to the packets of one queue pair.
func TestProgramsInARealTerminal(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	x := startTerminal(t, "80", "24", clitest.Command(t), "top", "--interval", "200ms")
	x.shows(80, 24, "No program of this user has an RDMA device", "softrdma rping -c")

	address := clitest.ServerAddress(t)
	clitest.Start(t, "rping", "-s", "-P", "-a", address)
	x.shows(80, 24, "1 program, 1 device", address)
	clitest.Start(t, "rping", "-c", "-a", address)
	x.shows(80, 24, "2 programs, 2 devices, 2 QPs", "RTS", "> 0x", "QPs by TX B/s")

	x.press("s")
	x.shows(80, 24, "QPs by RX B/s")
	x.press("/", "n", "o", "n", "e", "Enter")
	x.shows(80, 24, "filter: none", "  none")
	x.press("Escape") // the key after it would be taken for a part of its sequence
	x.shows(80, 24, "> 0x")
	x.press("Tab", "Enter")
	x.shows(80, 24, "queue pairs of "+address)
	x.press("Enter")
	x.shows(80, 24, "queue pair 0x", "peer 127.", "changes of state, refusals", "RDMA READ", "esc back")
	x.press("Escape")
	x.shows(80, 24, "QPs by RX B/s")
	x.press("?")
	x.shows(80, 24, "reverse the order", "any key: back")
	x.press("x")

	x.tmux("resize-window", "-t", "top", "-x", "130", "-y", "40")
	x.shows(130, 40, "PROTOCOL", "RoCE v2", "REASON")
	x.ends("q")
}

// A terminal that cannot move its cursor gets tables.
func TestProgramsInATerminalWithoutCursor(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	address := clitest.ServerAddress(t)
	clitest.Start(t, "rping", "-s", "-P", "-a", address)
	x := startTerminal(t, "130", "40", "env", "TERM=dumb", clitest.Command(t), "top", "--interval", "200ms")
	for end := time.Now().Add(clitest.Timeout); strings.Count(x.tmux("capture-pane", "-p", "-t", "top"), address+" ") < 3; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no tables in\n%s", x.tmux("capture-pane", "-p", "-t", "top"))
		}
	}
}
