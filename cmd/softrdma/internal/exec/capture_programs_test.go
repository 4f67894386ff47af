//go:build interop && linux

package exec

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// The packets of devices in programs are in the capture of exec, with those of its connection
// manager.
func TestProgramsDevicesAreCaptured(t *testing.T) {
	clitest.NeedPrograms(t, "rping", "sh")
	at, file := clitest.LoopbackDevice(t), filepath.Join(t.TempDir(), "x.pcapng")
	pair := strings.ReplaceAll("rping -s -C 3 -a AT & for i in $(seq 100); do rping -c -C 3 -a AT -I AT && break; sleep .1; done; wait", "AT", at)
	out := clitest.Start(t, "exec", "-d", at, "--engine", "program", "-v", "--pcap", file, "--", "sh", "-c", pair)
	if out.ExitCode() != 0 || strings.Count(out.Stderr.String(), "is in the program") < 2 {
		t.Fatalf("%d: %s", out.ExitCode(), &out.Stderr)
	}
	said := clitest.Run(t, "capture", file)
	for _, want := range []string{"RDMA READ Request", "RDMA WRITE Only", "UD SEND Only", " 0 faults"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}
