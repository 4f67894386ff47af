//go:build interop && linux

package exec

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// A program with the device in its own process that crashes or is killed leaves the flight recorder, in
// files like those of a failure. One that ends in order, or has sent nothing, leaves none.
func TestProgramThatCrashesLeavesTheFlightRecorder(t *testing.T) {
	program := compileVerbs(t, "crash")
	for _, x := range []struct {
		end    string
		code   int
		leaves bool
	}{
		{"kill", 128 + int(syscall.SIGKILL), true}, {"segv", 128 + int(syscall.SIGSEGV), true}, {"abort", 128 + int(syscall.SIGABRT), true},
		{"_exit", 7, true}, {"exit", 9, false}, {"closed", 9, false}, {"idle", 128 + int(syscall.SIGKILL), false},
	} {
		dir := t.TempDir()
		device := clitest.LoopbackDevice(t)
		p := clitest.Start(t, "exec", "-v", "-d", device, "--engine", "program", "--records", dir, "--", program, x.end)
		if code := p.ExitCode(); code != x.code {
			t.Fatalf("%s: code %d, expected %d: %s", x.end, code, x.code, &p.Stderr)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != map[bool]int{true: 2}[x.leaves] {
			t.Errorf("%s: files %v, %v", x.end, files, err)
		}
		if !x.leaves || len(files) != 2 {
			continue
		}
		qpn := strings.TrimSpace(p.Stdout.String())
		if !strings.HasSuffix(files[1], "-1.txt") || !strings.Contains(p.Stderr.String(), "ended without closing rxe0: its flight recorder is in "+dir) {
			t.Errorf("%s: files %v: %s", x.end, files, &p.Stderr)
		}
		text, err := os.ReadFile(files[1])
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		last := lines[len(lines)-2:]
		if !strings.Contains(last[0], "RC RDMA READ Response Only") || !strings.Contains(last[1], "ended without closing the device: it crashed or was killed") ||
			!strings.Contains(string(text), "QP 0x"+qpn+"  sent      RC RDMA READ Request") {
			t.Errorf("%s: the text is\n%s", x.end, text)
		}
		packets := clitest.Run(t, "capture", files[0])
		if strings.Count(packets, "RC RDMA READ Request QP") != 2 { // sent and received
			t.Errorf("%s: the capture is\n%s", x.end, packets)
		}
	}
}

// Perftest, killed in the middle of its WRITEs.
func TestKilledPerftestLeavesItsLastPackets(t *testing.T) {
	clitest.NeedPrograms(t, "ib_write_bw", "sh", "grep")
	dir, device := t.TempDir(), clitest.LoopbackDevice(t)
	// Port 18599 is 48A7.
	script := `perf="ib_write_bw -F -s 65536 -D 60 -p 18599"
$perf & server=$!; until grep -q ':48A7 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep .05; done
$perf ` + device + ` & until [ $(cat /sys/class/infiniband/rxe0/ports/1/counters/port_xmit_packets) -gt 1000 ]; do sleep .05; done
kill -9 $! $server; wait`
	clitest.Start(t, "exec", "-d", device, "--engine", "program", "--records", dir, "--", "sh", "-c", script).ExitCode()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("files %v, %v, expected two of each end", files, err)
	}
	text, packets := readRecords(t, files)
	for _, want := range []string{"sent      RC RDMA WRITE", "received  RC RDMA WRITE", "sent      RC Acknowledge", "received  RC Acknowledge"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !strings.Contains(packets, "RC RDMA WRITE") || !strings.Contains(packets, "RC Acknowledge") || strings.Contains(packets, "fault: PACKET") {
		t.Errorf("the captures are\n%s", packets)
	}
}
