package verbs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"softrdma/internal/capture"
	"softrdma/verbs"
)

// packetsOf reads a capture, and returns the ICRC of each packet that a queue pair receives,
// by PSN.
func packetsOf(t *testing.T, file io.Reader, qpn uint32) map[uint32]uint32 {
	t.Helper()
	r, err := capture.NewReader(file, 4812, 4813)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint32]uint32)
	for p := new(capture.Packet); ; {
		err := r.Next(p)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.ICRC != capture.Good {
			t.Errorf("packet %d: ICRC %#x, expected %#x", p.Number, p.Found, p.Expected)
		}
		if p.DestQPN == qpn {
			found[uint32(p.PSN)] = p.Found
		}
	}
}

// A capture that begins during traffic contains every packet from then on, at each end.
func TestCaptureIncludesTheMemoryPath(t *testing.T) {
	for name, c := range map[string]struct {
		a, b   string
		lanes  [2]int
		typ    verbs.QPType
		shared bool
	}{
		"RC":             {a: "127.7.43.1", b: "127.7.43.2", lanes: [2]int{1, 1}, typ: verbs.RC, shared: true},
		"RC, more lanes": {a: "127.7.43.1", b: "127.7.43.2", lanes: [2]int{3, 2}, typ: verbs.RC},
		"RC over IPv6":   {a: "[::1]:4812", b: "[::1]:4813", lanes: [2]int{1, 1}, typ: verbs.RC},
		"UC":             {a: "127.7.43.1", b: "127.7.43.2", lanes: [2]int{1, 1}, typ: verbs.UC},
	} {
		t.Run(name, func(t *testing.T) {
			hostDirectory(t)
			const size, count = 1 << 20, 20
			file := filepath.Join(t.TempDir(), "peer.pcapng")
			p := startHostPeer(t, peerConfig{Addr: c.b, Lanes: c.lanes[1], Size: size, QPs: 1, Type: c.typ, Shared: c.shared, Mode: verbs.SameHostRequire, Capture: file})
			dev := openHost(t, c.a, verbs.Config{SameHost: verbs.SameHostRequire, Lanes: c.lanes[0]})
			s := onType(t, dev, make([]byte, size), c.typ)
			p.join(t, verbs.ConnectConfig{Timeout: 19}, s)
			write := func(n int) {
				for range n {
					s.post(t, p.to(s, verbs.OpWrite, 0, 64<<10))
					s.ok(t, verbs.WCWrite)
				}
			}
			write(count)
			var own bytes.Buffer
			capturing, err := dev.Capture(&own)
			if err != nil {
				t.Fatal(err)
			}
			p.tell(t, "capture", "captures")
			write(count)
			if got := s.qp.Path(); got != verbs.PathSameHost {
				t.Errorf("path %q", got)
			}
			p.end(t)
			if err := capturing.Close(); err != nil {
				t.Fatal(err)
			}
			theirs, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			sent, received := packetsOf(t, &own, p.info.Ends[0].QPN), packetsOf(t, theirs, p.info.Ends[0].QPN)
			want := count * (64 << 10) / dev.QueryPort().ActiveMTU
			least := want
			if c.typ == verbs.UC { // the peer may end before it has received the last ones
				least = 1
			}
			if len(sent) < want || len(received) < least {
				t.Errorf("%d packets sent and %d received, expected %d", len(sent), len(received), want)
			}
			for psn, icrc := range received {
				if got, ok := sent[psn]; !ok || got != icrc {
					t.Fatalf("PSN %d was received with ICRC %#x, and sent with %#x", psn, icrc, got)
				}
			}
		})
	}
}
