package ladder

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A recorded is a run of packets of a flight recorder.
type recorded struct {
	at, lasts     time.Duration
	ack           bool
	psn           psn.PSN
	packets, each int
}

// recorder returns what the flight recorder of an end has, as a file.
func recorder(t *testing.T, requester bool, runs ...recorded) []byte {
	t.Helper()
	a, b := netip.MustParseAddrPort("192.0.2.1:4791"), netip.MustParseAddrPort("192.0.2.2:4791")
	var out bytes.Buffer
	c, err := capture.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		var p ib.Packet
		p.Opcode, p.DestQPN, p.PSN, p.PKey = ib.RCSendMiddle, 0x22, r.psn, 0xffff
		e := &trace.Event{Kind: trace.Sent, Time: time.Unix(1000, 0).Add(r.at), Packet: trace.Packet{Src: a, Dst: b, TTL: 64, Missing: r.each + ib.ICRCLen}}
		if r.ack {
			p.Opcode, p.DestQPN = ib.RCAcknowledge, 0x11
			e.Packet.Src, e.Packet.Dst, e.Packet.Missing = b, a, ib.ICRCLen
		}
		if r.ack == requester {
			e.Kind = trace.Received
		}
		if r.packets > 1 {
			e.Note = capture.Run{Packets: r.packets, Bytes: uint64(r.packets * r.each), Time: r.lasts}.String()
		}
		e.Packet.Pieces = [][]byte{p.Append(nil)}
		c.Trace(e)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Two flight recorders divide the same packets in different ways. What one of them lacks between packets that it
// has was lost; what is beyond them may have been.
func TestRunsOfTwoRecordersArePaired(t *testing.T) {
	const ms = time.Millisecond
	l := New(2)
	for v, file := range [][]byte{
		recorder(t, true, recorded{0, 10 * ms, false, 100, 10, 256}, recorded{12 * ms, 0, true, 109, 1, 0}, recorded{20 * ms, 0, false, 110, 1, 256}),
		recorder(t, false, recorded{0, 4 * ms, false, 100, 4, 256}, recorded{6 * ms, 4 * ms, false, 106, 4, 256}, recorded{12 * ms, 0, true, 109, 1, 0}),
	} {
		if err := read(l, v, file, whole); err != nil {
			t.Fatal(err)
		}
	}
	f := l.Figure(Options{All: true})
	if len(f.Connections) != 1 {
		t.Fatalf("%+v", f)
	}
	c := &f.Connections[0]
	if *c.Right.QPN != 0x22 || c.Left.QPN == nil || *c.Left.QPN != 0x11 || c.Packets != 12 {
		t.Errorf("%+v", c)
	}
	var got []string
	for _, r := range c.Rungs {
		state := "both"
		switch {
		case !r.Received:
			state = "lost"
		case r.Numbers[0] == 0 || r.Numbers[1] == 0:
			state = "one"
		}
		got = append(got, r.Label+" "+state)
	}
	want := []string{
		"SEND Middle PSN 0x000064, 4 packets, 1024 B both", "SEND Middle PSN 0x000068, 2 packets, 512 B lost",
		"SEND Middle PSN 0x00006a, 4 packets, 1024 B both", "Acknowledge PSN 0x00006d ACK both", "SEND Middle PSN 0x00006e, 256 B one",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text := draw(t, l, Options{All: true})
	expect(t, text, "lost on the way", "one end's flight recorder alone")
	if strings.Contains(text, "a run of") || strings.Contains(text, "fault") {
		t.Errorf("a run is no remark, and no fault:\n%s", text)
	}
}

// No run of a hostile file takes memory or time.
func TestLongRunsAreBounded(t *testing.T) {
	l := New(2)
	for v, file := range [][]byte{
		recorder(t, true, recorded{0, 1 << 62, false, 0, 1 << 23, 0}),
		recorder(t, false, recorded{0, 0, false, 0, 1 << 23, 0}, recorded{0, 0, false, 1 << 22, 1 << 30, 0}),
	} {
		if err := read(l, v, file, whole); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.Figure(Options{All: true}).Connections[0].Rungs); n > 8 {
		t.Errorf("%d rungs", n)
	}
}
