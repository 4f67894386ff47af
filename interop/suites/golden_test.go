//go:build interop && linux

package suites

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
	"softrdma/interop/peers/exerciser"
)

var updateGolden = flag.Bool("update-golden", false, "record testdata/golden_rxe_*.pcapng again")

// goldenOpcodes are the opcodes of IBTA table 38 that verbs can send over RC, UC and UD.
var goldenOpcodes = func() []int {
	var ops []int
	for op := 0; op <= 20; op++ {
		ops = append(ops, op)
	}
	ops = append(ops, 22, 23)
	for op := 32; op <= 43; op++ {
		ops = append(ops, op)
	}
	return append(ops, 100, 101)
}()

// goldenSyndromes are the AETH syndromes of rxe's answers in the scenarios: ACK without credits, RNR NAK with two
// timers, and the NAKs for a PSN out of sequence, an invalid request, a remote access and a remote operation error.
var goldenSyndromes = []int{0x1f, 0x20 | 12, 0x20 | 26, 0x60, 0x61, 0x62, 0x63}

func goldenPath(v6 bool) string {
	name := "golden_rxe_ipv4.pcapng"
	if v6 {
		name = "golden_rxe_ipv6.pcapng"
	}
	return filepath.Join("testdata", name)
}

// TestGoldenCapturesHaveEveryOpcode checks the committed captures, and records them first with -update-golden.
func TestGoldenCapturesHaveEveryOpcode(t *testing.T) {
	if *updateGolden {
		recordGolden(t)
	}
	if err := lab.InstallPackages(t.Context()); err != nil {
		needs(t, err)
	}
	for _, v6 := range []bool{false, true} {
		t.Run(filepath.Base(goldenPath(v6)), func(t *testing.T) {
			ctx := within(t, time.Minute)
			opcodes := fieldCounts(ctx, t, goldenPath(v6), "infiniband.bth.opcode")
			for _, op := range goldenOpcodes {
				if opcodes[op] == 0 {
					t.Errorf("no packet with opcode %#02x", op)
				}
			}
			syndromes := fieldCounts(ctx, t, goldenPath(v6), "infiniband.aeth.syndrome")
			for _, s := range goldenSyndromes {
				if syndromes[s] == 0 {
					t.Errorf("no packet with AETH syndrome %#02x", s)
				}
			}
			if st, err := os.Stat(goldenPath(v6)); err != nil || st.Size() > 150<<10 {
				t.Errorf("a golden capture is to stay below 150 KiB: %v, %v", st.Size(), err)
			}
		})
	}
}

// fieldCounts counts the values of a field with tshark.
func fieldCounts(ctx context.Context, t *testing.T, path, field string) map[int]int {
	t.Helper()
	out, err := lab.RunCommand(ctx, "", "tshark", "-r", path, "-T", "fields", "-e", field)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		n, err := strconv.ParseInt(line, 0, 32)
		if err != nil {
			t.Fatalf("tshark prints %q for %s", line, field)
		}
		counts[int(n)]++
	}
	return counts
}

func recordGolden(t *testing.T) {
	l := openLab(t)
	ctx := within(t, 3*time.Minute)
	// Both guests number their queue pairs alike. Use some numbers up on one, so that the ends' numbers differ.
	for range 3 {
		l.Guests[1].Run(ctx, "timeout", "0.7", "ibv_rc_pingpong", "-d", "rxe0", "-g", "1")
	}
	names := scenarioNames(t, func(s *exerciser.Scenario) bool { return s.Golden })
	want, err := exerciser.Baseline()
	if err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		fresh := filepath.Join(l.Dir(), filepath.Base(goldenPath(v6)))
		capture, err := l.Capture(ctx, fresh, "udp port 4791")
		if err != nil {
			t.Fatal(err)
		}
		got, err := peers.Exercise(ctx, peers.Rxe{Guest: l.Guests[1]}, peers.Rxe{Guest: l.Guests[0]}, names, v6, exerciseMTU)
		if err := capture.Stop(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			checkResult(t, want[name][exerciser.Client], got[name][exerciser.Client])
			checkResult(t, want[name][exerciser.Server], got[name][exerciser.Server])
		}
		if t.Failed() {
			t.Fatal("not recorded: the scenarios did not go as in the baseline")
		}
		if err := lab.CopyFile(fresh, goldenPath(v6), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Println("recorded", goldenPath(v6), "with kernel", l.Kernel.Version)
	}
}
