package capture

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/frame"
	"softrdma/internal/frame/infiniband"
	"softrdma/internal/qp"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// eventNative builds what a port of a fabric traces for a packet.
func eventNative(t *testing.T, k trace.Kind, dst qp.Endpoint, p ib.Packet) *trace.Event {
	t.Helper()
	n := infiniband.New(nil, frame.Port{LID: 4, GIDs: []netip.Addr{gidB.Addr()}})
	f, err := n.Open(&qp.Path{Dst: dst}, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.Classify(f, frame.Class{TrafficClass: 2, HopLimit: 64})
	e := event(k, hostA, hostB, 0, p)
	b := bytes.Join(e.Packet.Pieces, nil)
	ib.PutICRC(b[len(b)-ib.ICRCLen:], f.CRC.Sum(0, b))
	e.Packet = trace.Packet{Src: f.Local, Dst: f.Peer, Header: bytes.Clone(f.Header(len(b))), Native: f.Native, Pieces: [][]byte{b}}
	return e
}

var nativeDestinations = map[string]qp.Endpoint{
	"LID 8":               qp.LIDEndpoint(8),
	"2001:db8::1 (LID 8)": infiniband.Global(netip.MustParseAddr("2001:db8::1"), 8),
}

func TestInfiniBandPacketsAreReadAsWritten(t *testing.T) {
	for name, dst := range nativeDestinations {
		var events []*trace.Event
		for _, p := range everyOpcode() {
			events = append(events, eventNative(t, trace.Received, dst, p))
		}
		all := readAll(t, writeAll(t, events...))
		if len(all) != len(events) {
			t.Fatalf("%d packets read, %d written", len(all), len(events))
		}
		for n, p := range all {
			e := events[n].Packet
			if !p.Native || !bytes.Equal(p.Data, e.Pieces[0]) || p.Fault != ib.OK || p.ICRC != Good || p.Src != e.Src || p.Dst != e.Dst {
				t.Errorf("%v: InfiniBand %v, from %v to %v, fault %v, ICRC %d", &p.Packet, p.Native, p.Src, p.Dst, p.Fault, p.ICRC)
			}
			if _, to := p.Endpoints(); to != name {
				t.Errorf("to %q, expected %q", to, name)
			}
		}
	}
}

func TestInfiniBandCapturesDissectWithoutComplaint(t *testing.T) {
	for _, dst := range nativeDestinations {
		var events []*trace.Event
		packets := everyOpcode()
		for _, p := range packets {
			events = append(events, eventNative(t, trace.Sent, dst, p))
		}
		out := tshark(t, writeAll(t, events...), "-T", "fields", "-E", "separator=|", "-e", "infiniband.lrh.dlid", "-e", "infiniband.lrh.slid",
			"-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp", "-e", "infiniband.invariant.crc", "-e", "_ws.malformed", "-e", "_ws.expert.message")
		lines := strings.Split(out, "\n")
		if len(lines) != len(packets) {
			t.Fatalf("tshark dissects %d packets, expected %d:\n%s", len(lines), len(packets), out)
		}
		for n, line := range lines {
			b := events[n].Packet.Pieces[0]
			icrc := fmt.Sprintf("0x%x", b[len(b)-ib.ICRCLen:])
			if newer(packets[n].Opcode) && !strings.Contains(line, icrc) {
				icrc = ""
			}
			want := strings.Join([]string{"8", "4", fmt.Sprint(uint8(packets[n].Opcode)), "0x000012", icrc, "", ""}, "|")
			if line != want {
				t.Errorf("%v: tshark prints %q, expected %q", packets[n].Opcode, line, want)
			}
		}
	}
}

// Flows between different LIDs are different flows, also without GIDs, and print as LIDs.
func TestAnalyzerSeparatesFlowsByLID(t *testing.T) {
	var events []*trace.Event
	for _, lid := range []uint16{8, 9, 8} {
		events = append(events, eventNative(t, trace.Sent, qp.LIDEndpoint(lid), op(ib.UDSendOnly, 1, 8)))
	}
	a := NewAnalyzer()
	for _, p := range readAll(t, writeAll(t, events...)) {
		if p.Network() != "InfiniBand" {
			t.Errorf("a packet of %s", p.Network())
		}
		a.Add(&p)
	}
	var got []string
	for _, c := range a.Connections() {
		src, dst := c.Endpoints()
		got = append(got, fmt.Sprint(src, " > ", dst, ": ", c.Packets))
	}
	if want := "LID 4 > LID 8: 2, LID 4 > LID 9: 1"; strings.Join(got, ", ") != want {
		t.Errorf("%s, expected %s", strings.Join(got, ", "), want)
	}
}
