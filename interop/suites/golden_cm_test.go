//go:build interop && linux

package suites

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// cmMessages are the CM's messages by attribute ID (IBTA 12.6), as far as
// a Linux kernel sends them.
var cmMessages = map[int]string{
	0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ", 0x18: "SIDR_REP",
}

const goldenCM = "golden_rxe_cm.pcapng"

// goldenMADs returns the file from which the parser's tests read the same MADs.
func goldenMADs() string {
	return "../../internal/wire/mad/testdata/rxe_cm.txt"
}

// TestGoldenCMCaptureHasEveryMessage checks the committed capture and the MADs taken from it, and records both first
// with -update-golden.
func TestGoldenCMCaptureHasEveryMessage(t *testing.T) {
	path := filepath.Join("testdata", goldenCM)
	if *updateGolden {
		recordGoldenCM(t, path)
	}
	if err := lab.InstallPackages(t.Context()); err != nil {
		needs(t, err)
	}
	ctx := within(t, time.Minute)
	found := fieldCounts(ctx, t, path, "infiniband.mad.attributeid")
	for id, name := range cmMessages {
		if found[id] == 0 {
			t.Errorf("no %s", name)
		}
	}
	want := extractMADs(ctx, t, path)
	got, err := os.ReadFile(goldenMADs())
	if err != nil {
		t.Fatal(err)
	}
	if lines := madLines(got); !bytes.Equal(lines, madLines(want)) {
		t.Errorf("%s does not hold the MADs of %s; record both with -update-golden", goldenMADs(), path)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 50<<10 {
		t.Errorf("the golden capture is to stay below 50 KiB: %v, %v", st.Size(), err)
	}
}

// madLines removes the comments.
func madLines(text []byte) []byte {
	var lines []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("#")) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// extractMADs returns a line for each MAD of a capture: its place, sender and message, and its 256 bytes.
func extractMADs(ctx context.Context, t *testing.T, path string) []byte {
	t.Helper()
	const bthAndDETH, mad = 20, 256
	out, err := lab.RunCommand(ctx, "", "tshark", "-r", path, "-T", "fields", "-E", "separator=,", "-E", "occurrence=f",
		"-e", "ip.src", "-e", "ipv6.src", "-e", "infiniband.mad.attributeid", "-e", "udp.payload")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	number := 0
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) != 4 {
			t.Fatalf("tshark says %q", line)
		}
		var id int
		fmt.Sscanf(f[2], "%v", &id)
		payload, err := hex.DecodeString(strings.ReplaceAll(f[3], ":", ""))
		if err != nil || len(payload) != bthAndDETH+mad+4 || cmMessages[id] == "" {
			t.Fatalf("tshark says %q: %v", line, err)
		}
		number++
		fmt.Fprintf(&text, "%02d_%s_from_%s %x\n", number, cmMessages[id], f[0]+f[1], payload[bthAndDETH:][:mad])
	}
	return text.Bytes()
}

// recordGoldenCM runs programs between both guests in all ways that produce another message.
func recordGoldenCM(t *testing.T, path string) {
	l := openLab(t)
	ctx := within(t, 2*time.Minute)
	a, b := l.Guests[0], l.Guests[1]
	// Both guests number their queue pairs alike. Use some numbers up on one, so that the ends' numbers differ.
	for range 3 {
		b.Run(ctx, "timeout", "0.7", "ibv_rc_pingpong", "-d", "rxe0", "-g", "1")
	}
	fresh := filepath.Join(l.Dir(), goldenCM)
	capture, err := l.Capture(ctx, fresh, "udp port 4791")
	if err != nil {
		t.Fatal(err)
	}
	both := func(server, client []string) {
		t.Helper()
		s, err := b.Start(ctx, server...)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until it listens: nothing tells of an RDMA port
		if _, err := a.Run(ctx, client...); err != nil {
			t.Error(err)
		}
		if _, err := s.Wait(ctx); err != nil {
			t.Error(err)
		}
	}
	both([]string{"rping", "-s", "-a", b.IPv4, "-C", "1"}, []string{"rping", "-c", "-a", b.IPv4, "-C", "1"})
	both([]string{"rping", "-s", "-a", b.IPv6, "-C", "1"}, []string{"rping", "-c", "-a", b.IPv6, "-C", "1"})
	both([]string{"rstream", "-b", b.IPv4, "-S", "64", "-C", "1"}, []string{"rstream", "-s", b.IPv4, "-S", "64", "-C", "1"})
	both([]string{"ucmatose", "-b", b.IPv4, "-P", "ib", "-p", "7472", "-t", "32"},
		[]string{"ucmatose", "-s", b.IPv4, "-P", "ib", "-p", "7472", "-t", "32"})
	both([]string{"udaddy", "-b", b.IPv4}, []string{"udaddy", "-s", b.IPv4})
	both([]string{"udaddy", "-b", b.IPv6}, []string{"udaddy", "-s", b.IPv6})
	// No listener: REJ with reason 8, SIDR_REP with a status.
	a.Run(ctx, "rping", "-c", "-a", b.IPv4, "-C", "1")
	a.Run(ctx, "udaddy", "-s", b.IPv4)
	// A server that is stopped while it should accept: the REQ comes again, and is answered by MRA.
	s, err := b.Start(ctx, "rping", "-s", "-a", b.IPv4, "-C", "1")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	s.Signal(syscall.SIGSTOP)
	time.AfterFunc(7500*time.Millisecond, func() { s.Signal(syscall.SIGCONT) })
	if _, err := a.Run(ctx, "rping", "-c", "-a", b.IPv4, "-C", "1"); err != nil {
		t.Error(err)
	}
	s.Wait(ctx)
	// One that is killed before it accepts: REJ by the kernel in its name.
	if s, err = b.Start(ctx, "rping", "-s", "-a", b.IPv4, "-C", "1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	s.Signal(syscall.SIGSTOP)
	time.AfterFunc(1500*time.Millisecond, func() { s.Kill() })
	a.Run(ctx, "rping", "-c", "-a", b.IPv4, "-C", "1")
	if err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.Fatal("not recorded")
	}
	if _, err := lab.RunCommand(ctx, "", "tshark", "-r", fresh, "-Y", "infiniband.bth.destqp == 1", "-F", "pcapng", "-w", path); err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf("# The MADs of interop/suites/testdata/%s: name, then 256 bytes. Two Linux kernels (%s, rdma_rxe,\n"+
		"# rdma-core 44.0-2) talking to each other: rping over IPv4 and IPv6, rstream, ucmatose in port space IB with ToS 32,\n"+
		"# udaddy over IPv4 and IPv6; rping and udaddy where nobody listens; rping with a server that is stopped for 7 s, and\n"+
		"# with one that is killed before it accepts. Made by: go test -tags interop -count=1 -run TestGoldenCM ./interop/suites -update-golden\n",
		goldenCM, l.Kernel.Version)
	if err := os.MkdirAll(filepath.Dir(goldenMADs()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenMADs(), append([]byte(header), extractMADs(ctx, t, path)...), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Println("recorded", path, "with kernel", l.Kernel.Version)
}
