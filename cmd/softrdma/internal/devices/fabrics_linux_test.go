package devices

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/attach"
)

func TestDevicesListsPortsOfFabrics(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOFTRDMA_FABRIC_DIR", dir)
	clitest.Start(t, "fabric", "up", "--name", "one", "--topology", "star:2").Prints("set it up")
	clitest.Start(t, "fabric", "up", "--name", "two", "--topology", "star:40", "--no-sm").Prints("softrdma fabric status")
	p, err := attach.Open(t.Context(), "one/node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()

	find := func(out, device string) []string {
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 0 && f[0] == device {
				return f
			}
		}
		return nil
	}
	short, long := clitest.Run(t, "devices"), clitest.Run(t, "devices", "-v")
	used := find(short, "ib:one/node-1")
	if len(used) < 9 || used[1] != "ACTIVE" || used[2] == "-" || used[3] != "1" || used[5]+used[6] != "4xEDR" || used[8] != fmt.Sprint(os.Getpid()) {
		t.Errorf("%q in\n%s", used, short)
	}
	if idle := find(short, "ib:two/node-0"); len(idle) < 4 || idle[1] != "INIT" || idle[2] != "-" || idle[3] != "-" || idle[len(idle)-1] != "-" {
		t.Errorf("%q in\n%s", idle, short)
	}
	if find(short, "ib:two/node-39") != nil || !strings.Contains(short, "and 39 ports that no process has opened") || find(long, "ib:two/node-39") == nil {
		t.Errorf("a large fabric:\n%s\nwith -v:\n%s", short, long)
	}
	if !strings.Contains(long, dir+"/one)") {
		t.Errorf("no socket in\n%s", long)
	}

	var records []portRecord
	if err := json.Unmarshal([]byte(clitest.Run(t, "devices", "--json")), &records); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Device == "ib:one/node-1" {
			if !r.Active || r.State != "active" || len(r.Programs) != 1 || r.Programs[0].Process != os.Getpid() || r.Socket != dir+"/one" || r.LID == 0 || r.Manager != 1 || r.ActiveMTU != 4096 {
				t.Errorf("%+v", r)
			}
			return
		}
	}
	t.Errorf("no port of the fabric in %+v", records)
}
