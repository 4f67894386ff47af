package ladder

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// golden has packets of two machines with Linux's Soft RoCE.
const golden = "../../../interop/suites/testdata/golden_rxe_ipv4.pcapng"

// A lens changes the packets of a capture: it returns false for one that the capture does not have.
type lens func(p *capture.Packet) bool

// views reads the golden capture once for each lens into a ladder.
func views(t testing.TB, lenses ...lens) *Ladder {
	t.Helper()
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	l := New(len(lenses))
	for v, see := range lenses {
		if err := read(l, v, file, see); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func read(l *Ladder, view int, file []byte, see lens) error {
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		return err
	}
	a := capture.NewAnalyzer()
	for {
		var p capture.Packet
		if err := r.Next(&p); err != nil {
			l.Pair(a.Connections())
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if see(&p) {
			l.Add(view, &p, a.Add(&p))
		}
	}
}

func whole(*capture.Packet) bool { return true }

func draw(t testing.TB, l *Ladder, o Options) string {
	t.Helper()
	var b strings.Builder
	if err := l.Draw(&b, o); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d columns, expected at most %d: %s", n, width, line)
		}
		if strings.Contains(line, "%!") {
			t.Errorf("wrong format: %s", line)
		}
	}
	return b.String()
}

func expect(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("expected %q in\n%s", w, text)
		}
	}
}

func TestRefusedRequestIsMarked(t *testing.T) {
	out := draw(t, views(t, whole), Options{QPN: 0x83, Most: 10})
	expect(t, out,
		"10.77.0.2  ", "  RC  ", "  10.77.0.3\n", "QP 0x000080  ", "  QP 0x000083\n",
		"*      59     0.000000  |--- RDMA WRITE First PSN 0xa14958 VA 0x161c7d45 R_Key 0x7405, 700 B -", "->|\n                        |  this packet is refused\n",
		"       62     0.008585  |<---", "--- Acknowledge PSN 0xa14958 NAK Remote Access Error ---|\n", "|  fault: NAK_REMOTE_ACCESS: ")
	if n, drawn := strings.Count(out, "\n*"), strings.Count(out, "  packet  "); n != drawn {
		t.Errorf("%d packets of %d connections are marked, expected one each:\n%s", n, drawn, out)
	}
}

func TestPacketOfOneCaptureIsLostOnTheWay(t *testing.T) {
	second := func(p *capture.Packet) bool {
		p.Time = p.Time.Add(time.Hour + 3*time.Millisecond) // clocks differ
		if p.DestQPN == 0x7a {                              // to the first end
			p.Time = p.Time.Add(-6 * time.Millisecond)
		}
		return p.Number != 30
	}
	out := draw(t, views(t, whole, second), Options{QPN: 0x7d, Most: 10})
	expect(t, out,
		"   28/28     0.000000  |--- SEND Only PSN 0x713f70, 200 B ---",
		"    30/-     0.092412  |--- SEND Only PSN 0x713f70, 200 B ---", "not in the receiver's capture: lost on the way",
		"   31/31     0.093319  |<---")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "30/-") && (!strings.HasSuffix(line, " |\n") || !strings.Contains(line, "-x ")) {
			t.Errorf("the lost packet arrives: %s", line)
		}
	}
	// From the other end, the same packet was never sent.
	out = draw(t, views(t, second, whole), Options{QPN: 0x7d, Most: 10})
	expect(t, out, "    -/30 ", "28/28 ")
}

func TestLongRunsAreShortened(t *testing.T) {
	l := New(1)
	start := time.Unix(1, 0)
	add := func(n int, c ...string) {
		p := &capture.Packet{Number: n, Time: start.Add(time.Duration(n) * time.Millisecond), Comments: c, Data: make([]byte, ib.BTHLen), ICRC: capture.Good}
		p.Opcode, p.DestQPN, p.PSN = ib.RCSendOnly, 9, 5
		p.Payload = make([]byte, 10)
		l.Add(0, p, nil)
	}
	for n := 1; n <= 50; n++ {
		if n == 20 {
			add(n, "fault rule 1:\x1b[2J dropped")
			continue
		}
		add(n)
	}
	l.Pair([]capture.Connection{{QPN: 9, Opcode: ib.RCSendOnly}})
	out := draw(t, l, Options{Most: 10})
	expect(t, out, "15 packets with 150 bytes", "|  fault rule 1: [2J dropped\n", "26 packets with 260 bytes")
	if strings.Contains(out, "\x1b") {
		t.Error("a comment sends control characters to the terminal")
	}
	if all := draw(t, l, Options{All: true, Most: 10}); strings.Count(all, "SEND Only") != 50 {
		t.Errorf("--all draws\n%s", all)
	}
}

func TestLadderKeepsTheLastPackets(t *testing.T) {
	l := New(1)
	if l.limit != maxRows {
		t.Errorf("%d packets are kept, expected %d", l.limit, maxRows)
	}
	l.limit = 100
	p := &capture.Packet{Data: make([]byte, ib.BTHLen)}
	p.Opcode, p.DestQPN = ib.RCSendOnly, 9
	for n := range l.limit + 10 {
		p.Number = n + 1
		l.Add(0, p, []capture.Finding{{Level: capture.Warning, Text: "late"}})
	}
	l.Pair([]capture.Connection{{QPN: 9, Opcode: ib.RCSendOnly}})
	if len(l.rows) != l.limit {
		t.Fatalf("%d packets are kept, expected %d", len(l.rows), l.limit)
	}
	var b strings.Builder
	if err := l.Draw(&b, Options{Most: 10}); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(b.String(), "\n")
	expect(t, first, "The first 10 packets are not shown: a ladder keeps the last 100.")
	expect(t, b.String(), "\n       11     0.000000", " 110 ")
}

func TestConnectionsBeyondTheLimitAreCounted(t *testing.T) {
	out := draw(t, views(t, whole), Options{Most: 2})
	expect(t, out, " more connections are not drawn", "without a warning, a fault or a comment are not drawn")
	if n := strings.Count(out, "  packet  "); n != 2 {
		t.Errorf("%d connections are drawn, expected 2", n)
	}
	expect(t, draw(t, views(t, whole), Options{QPN: 0xabcde, Most: 2}), "No connection of queue pair 0x0abcde")
}

func TestDrawReturnsTheWritersError(t *testing.T) {
	if err := views(t, whole).Draw(failing{}, Options{Most: 10}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v, expected that of the writer", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzDraw(f *testing.F) {
	file, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file, uint8(3))
	f.Fuzz(func(t *testing.T, file []byte, skip uint8) {
		l := New(2)
		_ = read(l, 0, file, whole)
		_ = read(l, 1, file, func(p *capture.Packet) bool { return p.Number%(int(skip)+2) != 0 })
		for _, o := range []Options{{All: true, Most: 1000}, {Most: 3}} {
			var b strings.Builder
			if err := l.Draw(&b, o); err != nil || strings.Contains(b.String(), "%!") {
				t.Fatalf("%v in\n%s", err, b.String())
			}
		}
	})
}

// A packet that was lost and sent again looks twice the same if the network numbers no packets.
func TestRepeatedPacketIsNotTheLostOne(t *testing.T) {
	l := New(2)
	start := time.Unix(1, 0)
	add := func(view, number int, at time.Duration, n int) {
		p := &capture.Packet{Number: number, Time: start.Add(at), Data: make([]byte, ib.BTHLen), ICRC: capture.Good}
		p.Opcode, p.DestQPN, p.PSN = ib.RCSendOnly, 9, psn.PSN(n)
		l.Add(view, p, nil)
	}
	for _, clock := range []time.Duration{0, time.Minute} { // the second capture's is a minute ahead
		view := min(int(clock), 1)
		add(view, 1, clock+time.Millisecond, 1)
		if view == 0 {
			add(view, 2, 2*time.Millisecond, 2) // is lost
		}
		add(view, 3, clock+102*time.Millisecond, 2)
	}
	l.Pair([]capture.Connection{{QPN: 9, Opcode: ib.RCSendOnly}})
	out := draw(t, l, Options{Most: 10})
	expect(t, out, "     1/1     0.000000", "     2/-     0.001000", "     3/3     0.101000")
}

// Each refusal looks back at few packets, or many refusals would take quadratic time.
func TestRefusalLooksBackAtFewPackets(t *testing.T) {
	const refused = 5
	for _, between := range []int{0, maxAlike - 1, maxAlike, 4 * maxAlike} {
		l := New(1)
		add := func(p *capture.Packet, findings ...capture.Finding) {
			p.Data, p.ICRC = make([]byte, ib.BTHLen), capture.Good
			l.Add(0, p, findings)
		}
		run := &capture.Packet{Run: capture.Run{Packets: 10}}
		run.Opcode, run.DestQPN, run.PSN = ib.RCWriteMiddle, 9, refused-2
		add(run)
		nak := &capture.Packet{}
		nak.Opcode, nak.DestQPN = ib.RCAcknowledge, 8
		for range between {
			add(nak)
		}
		add(nak, capture.Finding{Level: capture.Fault, Detail: reason.Detail{Reason: reason.NAKRemoteAccess, Found: refused}})
		l.Pair([]capture.Connection{{QPN: 9, PeerQPN: 8, Opcode: ib.RCWriteMiddle}})
		if c := l.connections()[0]; c.rungs[0].row().accused != (between < maxAlike) {
			t.Errorf("with %d packets between: accused is %v", between, c.rungs[0].row().accused)
		}
	}
}
