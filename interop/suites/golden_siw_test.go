//go:build interop && linux

package suites

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/internal/wire/iwarp"
	"softrdma/interop/lab"
	"softrdma/interop/peers"
	"softrdma/interop/peers/exerciser"
)

// goldenSiw returns the file from which the parser's tests read the frames of siw.
func goldenSiw() string {
	return "../../internal/wire/iwarp/testdata/siw.txt"
}

// siwSettings are siw's parameters of a recording, and what is run with them.
var siwSettings = []struct {
	name          string
	crc, p2p, mpa int
	scenarios     []string // of the exerciser
}{
	{name: "crc", crc: 1, mpa: 2, scenarios: []string{
		"golden_rc_send", "golden_rc_write", "golden_rc_read", "rc_duplex", "rc_wrong_rkey_write", "rc_wrong_rkey_read", "rc_out_of_bounds_write",
		"rc_out_of_bounds_read", "rc_no_permission_write", "rc_receive_too_small", "rc_receive_bad_memory", "rc_rnr_exhausted",
		"iwarp_solicited", "iwarp_send_invalidate", "iwarp_send_invalidate_solicited",
	}},
	{name: "plain", mpa: 2, scenarios: []string{"golden_rc_write", "rc_out_of_bounds_read"}},
	{name: "revision1", crc: 1, mpa: 1, scenarios: []string{"rc_write_1"}},
	{name: "peertopeer", crc: 1, p2p: 1, mpa: 2, scenarios: []string{"rc_write_1"}},
}

// longestGolden is the longest FPDU that is kept.
const longestGolden = 300

// TestGoldenSiwHasEveryMessage checks the committed frames, and records them first with -update-golden.
func TestGoldenSiwHasEveryMessage(t *testing.T) {
	if *updateGolden {
		recordGoldenSiw(t)
	}
	text, err := os.ReadFile(goldenSiw())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range siwSettings {
		if !strings.Contains(string(text), "\n"+s.name+" ") {
			t.Errorf("nothing of %q", s.name)
		}
	}
	for _, op := range []iwarp.Opcode{iwarp.Write, iwarp.ReadRequest, iwarp.ReadResponse, iwarp.Send, iwarp.SendSE, iwarp.SendInvalidate, iwarp.SendSEInvalidate, iwarp.Terminate} {
		if name := strings.ReplaceAll(op.String(), " ", "_"); !strings.Contains(string(text), " "+name+" ") {
			t.Errorf("no %s", name)
		}
	}
	if len(text) > 80<<10 {
		t.Errorf("%d bytes, which are to stay below 80 KiB", len(text))
	}
}

func recordGoldenSiw(t *testing.T) {
	l := openLab(t)
	ctx := within(t, 4*time.Minute)
	var text bytes.Buffer
	fmt.Fprintf(&text, "# What two Linux kernels' siw (%s, rdma-core 44.0-2) said to each other: setting, TCP connection, sender, message, bytes.\n"+
		"# The settings and scenarios are those of siwSettings in interop/suites/golden_siw_test.go. Messages of the same kind and length as one before\n"+
		"# in their setting, and FPDUs of more than %d bytes, are left out. Made by:\n"+
		"# go test -tags interop -count=1 -run TestGoldenSiw ./interop/suites -update-golden\n", l.Kernel.Version, longestGolden)
	for _, s := range siwSettings {
		for _, g := range l.Guests {
			const set = "cd /sys/module/siw/parameters; echo %d >mpa_crc_required; echo %d >peer_to_peer; echo %d >mpa_version"
			if _, err := g.Run(ctx, "sh", "-c", fmt.Sprintf(set, s.crc, s.p2p, s.mpa)); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(l.Dir(), "siw_"+s.name+".pcapng")
		capture, err := l.CaptureIWARP(ctx, file, "tcp portrange 30000-32767")
		if err != nil {
			t.Fatal(err)
		}
		server, client := peers.Siw{Guest: l.Guests[1]}, peers.Siw{Guest: l.Guests[0]}
		_, err = peers.Exercise(ctx, server, client, s.scenarios, false, exerciseMTU)
		if stopped := capture.Stop(); stopped != nil {
			t.Fatal(stopped)
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for stream := 0; followSiw(ctx, t, &text, file, s.name, stream, seen); stream++ {
		}
	}
	for _, g := range l.Guests {
		const reset = "cd /sys/module/siw/parameters; echo 0 >mpa_crc_required; echo 0 >peer_to_peer; echo 2 >mpa_version"
		if _, err := g.Run(ctx, "sh", "-c", reset); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(goldenSiw()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenSiw(), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// followSiw writes the messages of a TCP connection of a capture, and reports whether there is a connection of that number.
func followSiw(ctx context.Context, t *testing.T, to *bytes.Buffer, file, setting string, stream int, seen map[string]bool) bool {
	t.Helper()
	out, err := lab.RunCommand(ctx, "", "tshark", "-r", file, "-q", "-z", "follow,tcp,raw,"+strconv.Itoa(stream))
	if err != nil {
		t.Fatal(err)
	}
	var sides [2][]byte // the client's, the server's
	for line := range strings.Lines(out) {
		side := 0
		if strings.HasPrefix(line, "\t") {
			side = 1
		}
		if b, err := hex.DecodeString(strings.TrimSpace(line)); err == nil {
			sides[side] = append(sides[side], b...)
		}
	}
	for i, b := range sides {
		for first := true; len(b) > 0; first = false {
			n, name := messageOf(b, first)
			if n > len(b) {
				t.Fatalf("%s, connection %d: %d bytes are left of a message of %d: % x", setting, stream, len(b), n, b)
			}
			key := fmt.Sprint(name, n)
			if name == "Terminate" { // they differ in what they say
				key = hex.EncodeToString(b[:n])
			}
			if n <= longestGolden && !seen[key] {
				fmt.Fprintf(to, "%s %d %s %s %x\n", setting, stream, []string{exerciser.Client, exerciser.Server}[i], name, b[:n])
			}
			seen[key] = true
			b = b[n:]
		}
	}
	return len(sides[0]) > 0
}

// messageOf returns the name and the length of the message at the beginning of b.
func messageOf(b []byte, first bool) (int, string) {
	if first {
		var f iwarp.Frame
		if f.Parse(b) != iwarp.FrameOK {
			return len(b) + 1, ""
		}
		return iwarp.FrameLen + int(f.Private), map[bool]string{false: "Request", true: "Reply"}[f.Reply]
	}
	var s iwarp.Segment
	if len(b) < iwarp.UntaggedLen || !s.Parse(b) {
		return len(b) + 1, ""
	}
	return iwarp.FPDULen(int(binary.BigEndian.Uint16(b))), strings.ReplaceAll(s.Opcode.String(), " ", "_")
}
