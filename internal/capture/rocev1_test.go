package capture

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/frame/rocev1"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

var (
	gidA = netip.MustParseAddrPort("10.0.0.1:0")
	gidB = netip.MustParseAddrPort("[fe80::202:c9ff:fe01:2345]:0")
)

// eventV1 builds what a device of RoCE v1 traces for a packet.
func eventV1(k trace.Kind, tagged bool, p ib.Packet) *trace.Event {
	e := event(k, hostA, hostB, 0, p)
	b := bytes.Join(e.Packet.Pieces, nil)
	prefix := rocev1.ICRCPrefix(gidA.Addr(), gidB.Addr())
	ib.PutICRC(b[len(b)-ib.ICRCLen:], prefix.Sum(0, b))
	eth := ethernet.Header{Dst: ethernet.MAC{0, 2, 0xc9, 1, 0x23, 0x45}, Src: ethernet.MAC{2, 0, 0, 0, 0, 1}, Tagged: tagged, Tag: ethernet.NewTag(7, 5), Type: rocev1.EtherType}
	grh := ib.GRH{TrafficClass: 2, FlowLabel: 0xabcde, PayLen: uint16(len(b)), NextHeader: ib.NextBTH, HopLimit: 64,
		SGID: gidA.Addr().As16(), DGID: gidB.Addr().As16()}
	h := make([]byte, ethernet.HeaderLen+ethernet.TagLen+ib.GRHLen)
	n := eth.Put(h)
	grh.Put(h[n:])
	e.Packet = trace.Packet{Src: gidA, Dst: gidB, TOS: 2, TTL: 64, Header: h[:n+ib.GRHLen], Pieces: [][]byte{b}}
	return e
}

func TestWriterRoCEv1ReadsBackWithGoodICRC(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		events := []*trace.Event{event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 5, 4))} // a file of both protocols
		for _, p := range everyOpcode() {
			events = append(events, eventV1(trace.Received, tagged, p))
		}
		all := readAll(t, writeAll(t, events...))
		if len(all) != len(events) {
			t.Fatalf("%d packets read, %d written", len(all), len(events))
		}
		if all[0].V1 || all[0].Dst != hostB {
			t.Errorf("RoCE v2 read as %+v", all[0])
		}
		for n, p := range all[1:] {
			e := events[1+n].Packet
			if !p.V1 || !bytes.Equal(p.Data, e.Pieces[0]) || p.Fault != ib.OK || p.ICRC != Good {
				t.Errorf("%v: RoCE v1 %v, fault %v, ICRC %d", &p.Packet, p.V1, p.Fault, p.ICRC)
			}
			if p.Src != gidA || p.Dst != gidB || p.TOS != 2 || p.TTL != 64 || p.Direction != Inbound {
				t.Errorf("packet %d read as %+v", n+2, p)
			}
			if src, dst := p.Endpoints(); src != "10.0.0.1" || dst != "fe80::202:c9ff:fe01:2345" {
				t.Errorf("endpoints %s and %s", src, dst)
			}
		}
	}
}

func TestReaderRoCEv1LinkTypes(t *testing.T) {
	e := eventV1(trace.Sent, false, op(ib.RCSendOnly, 5, 4)).Packet
	frame := append(bytes.Clone(e.Header), e.Pieces[0]...)
	behind := frame[ethernet.HeaderLen:]
	for _, c := range []struct {
		name  string
		link  layers.LinkType
		frame []byte
	}{
		{"Ethernet", layers.LinkTypeEthernet, frame},
		{"Ethernet with padding", layers.LinkTypeEthernet, append(bytes.Clone(frame), 0, 0, 0)},
		{"cooked", layers.LinkTypeLinuxSLL, append([]byte{0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x89, 0x15}, behind...)},
		{"cooked 2", layers.LinkTypeLinuxSLL2, append([]byte{0x89, 0x15, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0}, behind...)},
	} {
		all := readAll(t, classic(t, c.link, c.frame))
		if len(all) != 1 || !all[0].V1 || all[0].ICRC != Good || !bytes.Equal(all[0].Data, e.Pieces[0]) {
			t.Errorf("%s: read %+v", c.name, all)
		}
	}
}

func TestReaderRoCEv1Damage(t *testing.T) {
	e := eventV1(trace.Sent, false, op(ib.RCSendOnly, 5, 40)).Packet
	whole := append(bytes.Clone(e.Header), e.Pieces[0]...)
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		found  bool
		icrc   Verdict
	}{
		{"payload", func(b []byte) []byte { b[len(b)-9] ^= 1; return b }, true, Bad},
		{"source GID", func(b []byte) []byte { b[14+8+15] ^= 1; return b }, true, Bad},
		{"traffic class", func(b []byte) []byte { b[14] ^= 1; return b }, true, Good},
		{"hop limit", func(b []byte) []byte { b[14+7] ^= 1; return b }, true, Good},
		{"cut", func(b []byte) []byte { return b[:len(b)-8] }, true, Unchecked},
		{"another next header", func(b []byte) []byte { b[14+6] = 17; return b }, false, Unchecked},
		{"cut GRH", func(b []byte) []byte { return b[:14+39] }, false, Unchecked},
	} {
		all := readAll(t, classic(t, layers.LinkTypeEthernet, c.change(bytes.Clone(whole))))
		if (len(all) == 1) != c.found || c.found && all[0].ICRC != c.icrc {
			t.Errorf("%s: read %+v", c.name, all)
		}
	}
}

// newer reports whether dissectors may not know the headers after the BTH of an opcode.
func newer(o ib.Opcode) bool {
	switch o {
	case ib.RCFlush, ib.RCAtomicWrite, ib.CongestionNotify, ib.RCSelectiveAck, ib.RCReason, ib.RCPathProbe, ib.RCTelemetry:
		return true
	}
	return o.Transport() == ib.XRC
}

func TestWriterRoCEv1DissectsWithoutComplaint(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		var events []*trace.Event
		packets := everyOpcode()
		for _, p := range packets {
			events = append(events, eventV1(trace.Sent, tagged, p))
		}
		out := tshark(t, writeAll(t, events...), "-T", "fields", "-E", "separator=|", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp",
			"-e", "infiniband.bth.psn", "-e", "infiniband.grh.paylen", "-e", "infiniband.grh.hoplmt", "-e", "infiniband.invariant.crc",
			"-e", "_ws.malformed", "-e", "_ws.expert.message", "-e", "vlan.priority", "-e", "frame.protocols")
		lines := strings.Split(out, "\n")
		if len(lines) != len(packets) {
			t.Fatalf("tshark dissects %d packets, expected %d:\n%s", len(lines), len(packets), out)
		}
		for n, line := range lines {
			f := strings.Split(line, "|")
			b := events[n].Packet.Pieces[0]
			tag := ""
			if tagged {
				tag = "5"
			}
			icrc := fmt.Sprintf("0x%x", b[len(b)-ib.ICRCLen:])
			if f[5] == "" && newer(packets[n].Opcode) {
				icrc = ""
			}
			want := []string{fmt.Sprint(uint8(packets[n].Opcode)), "0x000012", "5", fmt.Sprint(len(b)), "64", icrc, "", "", tag}
			if strings.Join(f[:len(want)], "|") != strings.Join(want, "|") || !strings.Contains(f[len(want)], "infiniband") {
				t.Errorf("%v: tshark prints %q, expected %q", packets[n].Opcode, f, want)
			}
		}
	}
}
