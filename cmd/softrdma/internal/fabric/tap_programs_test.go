//go:build interop && linux

package fabric

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// TestProgramsReadTheWireOfATap lets tshark and lldpd judge what is on the wire between a system and the
// fabric: LLDP and pauses in both directions, and no malformed frame. The switch names what the system has
// set otherwise.
func TestProgramsReadTheWireOfATap(t *testing.T) {
	testenv.Programs(t, "tshark", "dumpcap", "lldpd", "lldpcli", "ip", "python3", "unshare")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: network namespaces and tap devices need root")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", "-n", "-m", "-p", "-f", "--mount-proc", "sh", "testdata/tap.sh", clitest.Command(t), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	expect(t, string(out), "out by port 1 on priority 3 to leaf-0:3; PAUSED for", "fab0/leaf-0", "ifname leaf-0:3", "OUI: 00,80,C2, SubType: 11, Len: 2 08,08")
	frames := func(filter string) int {
		b, err := exec.CommandContext(ctx, "tshark", "-r", filepath.Join(dir, "wire.pcapng"), "-Y", filter).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	for filter, least := range map[string]int{
		"lldp && eth.src == 02:00:00:00:00:03":                  1, // the switch
		"lldp && eth.src == 02:00:00:00:00:05":                  1, // the system
		"macc.opcode == 0x0101 && eth.src == 02:00:00:00:00:03": 1,
		"macc.opcode == 0x0101 && eth.src == 02:00:00:00:00:05": 1, // the system's
		"ip.dsfield.dscp == 24":                                 1000,
	} {
		if n := frames(filter); n < least {
			t.Errorf("%d frames with %s, expected at least %d", n, filter, least)
		}
	}
	if n := frames("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed frames", n)
	}
}
