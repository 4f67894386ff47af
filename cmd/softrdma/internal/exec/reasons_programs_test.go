//go:build interop && linux

package exec

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
)

// Of two C programs, one WRITEs to memory of the other that does not allow it. vendor_err of its
// completion is the other's reason, and exec prints both sides. The capture has the reason, which
// tshark does not take for malformed.
func TestRefusedProgramsKnowThePeersReason(t *testing.T) {
	clitest.NeedPrograms(t, "tshark")
	program := compileVerbs(t, "refused")
	for _, engine := range []string{"program", "daemon"} {
		p := clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--engine", engine, "-v", "--keep-reasons", "--", program)
		if code, want := p.ExitCode(), fmt.Sprintf("status 10 vendor_err %d\n", reason.NAKRemoteAccess); code != 0 ||
			p.Stdout.String() != want || strings.Contains(p.Stderr.String(), "the peer says") {
			t.Errorf("%s with kept reasons: code %d: found %q, expected %q\n%s", engine, code, &p.Stdout, want, &p.Stderr)
		}
		for _, x := range []struct {
			args   []string
			reason reason.Reason
			says   string
		}{
			{nil, reason.KeyAccess, "KEY_ACCESS: memory lacks the access right: needs REMOTE_WRITE, has LOCAL_WRITE"},
			{[]string{"key"}, reason.KeyUnknown, "KEY_UNKNOWN: no memory has this key: "},
		} {
			file := filepath.Join(t.TempDir(), "x.pcapng")
			args := append([]string{"exec", "-d", clitest.LoopbackDevice(t), "--engine", engine, "-v", "--pcap", file, "--", program}, x.args...)
			p := clitest.Start(t, args...)
			if code := p.ExitCode(); code != 0 {
				t.Fatalf("%s %v: code %d: %s", engine, x.args, code, &p.Stderr)
			}
			if want := fmt.Sprintf("status 10 vendor_err %d\n", x.reason); p.Stdout.String() != want {
				t.Errorf("%s %v: found %q, expected %q", engine, x.args, &p.Stdout, want)
			}
			for _, want := range []string{
				"IBV_WC_REM_ACCESS_ERR: NAK_REMOTE_ACCESS: peer refused access to its memory: message PSN ",
				"; the peer says: " + x.says, "IBV_EVENT_QP_ACCESS_ERR: " + x.says,
			} {
				if !strings.Contains(p.Stderr.String(), want) {
					t.Errorf("%s %v: no %q in\n%s", engine, x.args, want, &p.Stderr)
				}
			}
			if said := clitest.Run(t, "capture", file); !strings.Contains(said, "softrdma's reason of the NAK that follows: "+x.says) {
				t.Errorf("%s %v: no reason in\n%s", engine, x.args, said)
			}
			malformed, err := exec.Command("tshark", "-r", file, "-Y", "_ws.malformed").CombinedOutput()
			if err != nil || strings.Contains(string(malformed), "Malformed") {
				t.Errorf("%s %v: %v\n%s", engine, x.args, err, malformed)
			}
		}
	}
	if said := clitest.Run(t, "explain", fmt.Sprint(uint32(reason.KeyAccess))); !strings.Contains(said, "KEY_ACCESS") {
		t.Errorf("explain: %s", said)
	}
}

// compileVerbs compiles a program of the engine's tests.
func compileVerbs(t *testing.T, name string, flags ...string) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		testenv.Lacks(t, "libibverbs-dev")
	}
	program, source := filepath.Join(t.TempDir(), name), filepath.Join("../../../../internal/uverbs/testdata/inprogram", name+".c")
	args := append([]string{"-O1", "-Wall", "-D_GNU_SOURCE", "-Wno-unused-function", "-o", program, source, "-libverbs", "-lpthread"}, flags...)
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return program
}

// A program that ends at once after a failure leaves the flight recorder of its device, wherever the
// device is.
func TestFailureOfAProgramLeavesTheFlightRecorder(t *testing.T) {
	program := compileVerbs(t, "refused")
	for _, engine := range []string{"program", "daemon"} {
		dir := filepath.Join(t.TempDir(), "new", "records")
		clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--engine", engine, "--records", dir, "--", program).Succeeds()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) < 2 || len(files) > 4 { // both ends fail
			t.Fatalf("%s: files %v, %v, expected one or two of each kind", engine, files, err)
		}
		text, packets := readRecords(t, files)
		for _, want := range []string{"sent      RC RDMA WRITE Only", "with IBV_WC_REM_ACCESS_ERR", "; the peer says KEY_ACCESS: memory lacks the access right"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", engine, want, text)
			}
		}
		if !strings.Contains(packets, "RC RDMA WRITE Only") || !strings.Contains(packets, "[ICRC unchecked]") || strings.Contains(packets, "fault: PACKET") {
			t.Errorf("%s: the capture is\n%s", engine, packets)
		}
	}
	clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--records", filepath.Join(program, "x"), "--", "true").Fails(cli.ExitFailed, "--records")
	clitest.Run(t, "exec", "-d", clitest.LoopbackDevice(t), "--records", t.TempDir(), "--", "true")
}

// readRecords returns the texts of flight recorders, and what softrdma capture prints of their packets.
func readRecords(t *testing.T, files []string) (text, packets string) {
	t.Helper()
	for _, name := range files {
		if filepath.Ext(name) == ".pcapng" {
			packets += clitest.Run(t, "capture", name)
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text, packets
}

// What the connection manager in the server hears of a peer that leaves, the flushed receives of a queue
// pair in the program say, and a queue pair in the program tells its peer why it failed.
func TestProgramsKnowWhyTheirPeersLeave(t *testing.T) {
	clitest.NeedPrograms(t, "gcc")
	if out, err := exec.Command("gcc", "-E", "-include", "rdma/rdma_cma.h", "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		testenv.Lacks(t, "librdmacm-dev: "+string(out))
	}
	program := compileVerbs(t, "farewell", "-lrdmacm")
	for _, engine := range []string{"program", "daemon"} {
		for how, want := range map[string]reason.Reason{"failed": reason.LocalKey, "ended": reason.CMEnded} {
			device := clitest.LoopbackDevice(t)
			p := clitest.Start(t, "exec", "-d", device, "--engine", engine, "-v", "--", program, device, how)
			if code := p.ExitCode(); code != 0 || p.Stdout.String() != fmt.Sprintf("vendor_err %d\n", want) {
				t.Errorf("%s, %s: code %d: found %q, expected vendor_err %d (%v)\n%s", engine, how, code, &p.Stdout, want, want, &p.Stderr)
			}
			if says := "the peer says: LOCAL_KEY"; strings.Contains(p.Stderr.String(), says) != (how == "failed") {
				t.Errorf("%s, %s: %s", engine, how, &p.Stderr)
			}
		}
	}
}
