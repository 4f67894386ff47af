package capture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// golden are packets of two machines with Linux's Soft RoCE, 217 in each file,
// whose ICRCs are good (see interop/suites/testdata/golden.md).
var golden = []string{"../../../../interop/suites/testdata/golden_rxe_ipv4.pcapng", "../../../../interop/suites/testdata/golden_rxe_ipv6.pcapng"}

const goldenPackets = 217

// packetLines returns the lines of packets, which precede the summary.
func packetLines(t *testing.T, out string) []string {
	t.Helper()
	packets, _, ok := strings.Cut(out, "\n\n")
	if !ok {
		t.Fatalf("no summary after the packets in\n%s", out)
	}
	return strings.Split(packets, "\n")
}

func TestCaptureShowsGoldenPackets(t *testing.T) {
	for _, file := range golden {
		out := clitest.Run(t, "capture", file)
		lines := packetLines(t, out)
		if len(lines) != goldenPackets {
			t.Errorf("%s: %d lines, expected %d", file, len(lines), goldenPackets)
		}
		for _, line := range lines {
			if strings.Contains(line, "ICRC") {
				t.Errorf("%s: %s", file, line)
			}
		}
		for _, want := range []string{
			"217 RoCE v2 packets of 217 captured frames",
			"RC SEND Only", "RC RDMA WRITE", "RC RDMA READ Request", "CmpSwap", "FetchAdd", "UC SEND", "UD SEND Only with Immediate",
			"[fault: NAK_REMOTE_ACCESS", "[warning: SEQUENCE_DUPLICATE", "[warning: NO_RECEIVE",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: nothing about %q in\n%s", file, want, out)
			}
		}
	}
}

func TestCaptureJSONMatchesText(t *testing.T) {
	for _, file := range golden {
		text := packetLines(t, clitest.Run(t, "capture", file))
		decoder := json.NewDecoder(strings.NewReader(clitest.Run(t, "capture", "--json", file)))
		decoder.DisallowUnknownFields()
		faults := 0
		for i, line := range text {
			var p packetRecord
			if err := decoder.Decode(&p); err != nil {
				t.Fatalf("%s: packet %d: %v", file, i+1, err)
			}
			if p.Type != "packet" || p.Number != i+1 || p.ICRC != "good" || !strings.Contains(line, p.Headers) || !strings.Contains(line, p.Src+" > "+p.Dst) {
				t.Errorf("%s: %+v, but as text\n%s", file, p, line)
			}
			for _, f := range p.Findings {
				if !strings.Contains(line, "["+f.Level+": "+f.Text+"]") {
					t.Errorf("%s: %+v is not in the text\n%s", file, f, line)
				}
				if f.Level == "fault" {
					faults++
				}
			}
			if n := strings.Count(line, "[fault: ") + strings.Count(line, "[warning: ") + strings.Count(line, "[note: "); n != len(p.Findings) {
				t.Errorf("%s: %d findings, as text %d\n%s", file, len(p.Findings), n, line)
			}
		}
		var s summaryRecord
		if err := decoder.Decode(&s); err != nil {
			t.Fatal(err)
		}
		packets := uint64(0)
		for _, c := range s.Connections {
			packets += c.Packets
		}
		if s.Type != "summary" || s.Packets != goldenPackets || s.Faults != faults || faults == 0 || packets != goldenPackets {
			t.Errorf("%s: %d faults, %d packets of connections; summary %+v", file, faults, packets, s)
		}
		if decoder.More() {
			t.Error("data after the summary")
		}
	}
}

func TestCaptureStrictFailsOnFaults(t *testing.T) {
	p := clitest.Start(t, "capture", "--strict", golden[0])
	p.Fails(cli.ExitFailed, "golden_rxe_ipv4.pcapng", "faults")
	if len(packetLines(t, p.Stdout.String())) != goldenPackets {
		t.Error("not all packets are shown")
	}
}

// damaged writes a changed copy of a golden file.
func damaged(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	b, err := os.ReadFile(golden[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(name, change(b), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCaptureDamagedPacketFailsICRC(t *testing.T) {
	// The Q_Key of the first datagram.
	name := damaged(t, func(b []byte) []byte {
		i := strings.Index(string(b), "\x11\x11\x11\x11")
		if i < 0 {
			t.Fatal("no datagram in the golden file")
		}
		b[i] ^= 1
		return b
	})
	out := clitest.Run(t, "capture", name)
	if n := strings.Count(out, "[ICRC bad] [fault: PACKET_ICRC"); n != 1 {
		t.Errorf("%d packets with a wrong ICRC, expected 1, in\n%s", n, out)
	}
}

func TestCaptureTruncatedFileShowsItsPackets(t *testing.T) {
	name := damaged(t, func(b []byte) []byte { return b[:len(b)/2] })
	p := clitest.Start(t, "capture", name)
	p.Fails(cli.ExitFailed, "x.pcapng")
	if n := len(packetLines(t, p.Stdout.String())); n < 50 || n >= goldenPackets {
		t.Errorf("%d packets of half the file", n)
	}
}

func TestCaptureOfStandardInput(t *testing.T) {
	f, err := os.Open(golden[1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := clitest.Prepare(t, "capture", "-")
	p.Cmd.Stdin = f
	p.Start()
	if n := len(packetLines(t, p.Succeeds())); n != goldenPackets {
		t.Errorf("%d packets, expected %d", n, goldenPackets)
	}
}

func TestCaptureRejectsOtherFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "capture", "capture.go").Fails(cli.ExitFailed, "capture.go", "not a capture file")
	clitest.Start(t, "capture", empty).Fails(cli.ExitFailed, "not a capture file")
	clitest.Start(t, "capture", filepath.Join(t.TempDir(), "none")).Fails(cli.ExitFailed, "none")
}

func TestCaptureDrawsLadders(t *testing.T) {
	out := clitest.Run(t, "capture", "--ladder", golden[0])
	for _, want := range []string{"  RC  ", "this packet is refused", "|  fault: NAK_REMOTE_ACCESS", "more connections are not drawn. --qp draws one."} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q in\n%s", want, out)
		}
	}
	if out := clitest.Run(t, "capture", "--ladder", "--qp", "0x83", golden[0], golden[0]); !strings.Contains(out, " 59/59 ") || strings.Contains(out, "lost on the way") {
		t.Errorf("two captures of all packets:\n%s", out)
	}
	for want, args := range map[string][]string{
		"--ladder": {golden[0], golden[1]}, "one of them": {"--ladder", "--json", golden[0]}, "found 0": {"--ladder", "--most", "0", golden[0]},
	} {
		clitest.Start(t, append([]string{"capture"}, args...)...).Fails(cli.ExitUsage, want)
	}
	clitest.Start(t, "capture", "--ladder", "--strict", golden[0]).Fails(cli.ExitFailed, "faults")
}
