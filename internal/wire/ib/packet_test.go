package ib

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"softrdma/internal/psn"
)

// opcodes are all rows of the table.
func opcodes() (all []Opcode) {
	for o, i := range table {
		if i != nil {
			all = append(all, Opcode(o))
		}
	}
	return all
}

// drawPacket draws a packet of the opcode with every field that counts.
func drawPacket(t *rapid.T, o Opcode) *Packet {
	u24 := rapid.Uint32Range(0, 1<<24-1)
	u32, u64 := rapid.Uint32(), rapid.Uint64()
	flag := rapid.Bool()
	i := o.Info()
	p := &Packet{BTH: BTH{
		Opcode: o, Solicited: flag.Draw(t, "solicited"), MigReq: flag.Draw(t, "migreq"),
		PKey: rapid.Uint16().Draw(t, "pkey"), FECN: flag.Draw(t, "fecn"), BECN: flag.Draw(t, "becn"),
		DestQPN: u24.Draw(t, "qpn"), AckReq: flag.Draw(t, "ackreq"), PSN: psn.New(u24.Draw(t, "psn")),
	}, Payload: []byte{}}
	if i.Headers&HasXRCETH != 0 {
		p.XRCETH = XRCETH{SRQN: u24.Draw(t, "srq")}
	}
	if i.Headers&HasDETH != 0 {
		p.DETH = DETH{QKey: u32.Draw(t, "qkey"), SrcQPN: u24.Draw(t, "source")}
	}
	if i.Headers&HasFETH != 0 {
		p.FETH = FETH{Selectivity: Selectivity(rapid.IntRange(0, 3).Draw(t, "selectivity")), Placement: Placement(rapid.IntRange(0, 15).Draw(t, "placement"))}
	}
	if i.Headers&HasRETH != 0 {
		p.RETH = RETH{Addr: u64.Draw(t, "address"), RKey: u32.Draw(t, "rkey"), Length: u32.Draw(t, "length")}
	}
	if i.Headers&HasAtomicETH != 0 {
		p.AtomicETH = AtomicETH{Addr: u64.Draw(t, "address"), RKey: u32.Draw(t, "rkey"),
			SwapAdd: u64.Draw(t, "swap"), Compare: u64.Draw(t, "compare")}
	}
	if i.Headers&HasAETH != 0 {
		p.AETH = AETH{Syndrome: Syndrome(rapid.Byte().Draw(t, "syndrome")), MSN: psn.New(u24.Draw(t, "msn"))}
	}
	if i.Headers&HasAtomicAckETH != 0 {
		p.AtomicAck = u64.Draw(t, "original")
	}
	if i.Headers&HasImmDt != 0 {
		p.Imm = u32.Draw(t, "immediate")
	}
	if i.Headers&HasIETH != 0 {
		p.IETH = u32.Draw(t, "invalidate")
	}
	if i.Payload {
		p.Payload = rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "payload")
		p.Pad = PadLen(len(p.Payload))
	}
	return p
}

// wire returns the packet as it goes out, with a place for the ICRC.
func wire(p *Packet) []byte { return append(p.Append(nil), 0, 0, 0, 0) }

func TestPacketEveryOpcodeRoundTrips(t *testing.T) {
	for _, o := range opcodes() {
		t.Run(o.String(), rapid.MakeCheck(func(t *rapid.T) {
			want := drawPacket(t, o)
			b := wire(want)
			if n := o.Info().Len + len(want.Payload) + int(want.Pad) + ICRCLen; len(b) != n {
				t.Fatalf("%d bytes built, expected %d", len(b), n)
			}
			var got Packet
			if f := got.Parse(b); f != OK {
				t.Fatalf("own packet refused: %v", f)
			}
			if d := cmp.Diff(*want, got); d != "" {
				t.Fatalf("built and parsed differ:\n%s", d)
			}
		}))
	}
}

// The layout is compared with bytes written by hand from the diagrams of the
// specification, so that parse and put cannot be wrong in the same way.
func TestPacketFieldsLieWhereTheSpecificationPutsThem(t *testing.T) {
	bth := func(op byte) []byte {
		return []byte{op, 0x80 | 0x40 | 3<<4, 0x12, 0x34, 0xc0, 0xab, 0xcd, 0xef, 0x80, 0x01, 0x02, 0x03}
	}
	head := func(o Opcode) BTH {
		return BTH{Opcode: o, Solicited: true, MigReq: true, Pad: 3, PKey: 0x1234, FECN: true, BECN: true,
			DestQPN: 0xabcdef, AckReq: true, PSN: 0x010203}
	}
	reth := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	wantRETH := RETH{Addr: 0x0102030405060708, RKey: 0x090a0b0c, Length: 0x0d0e0f10}
	atomic := append(reth[:12:12], 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33, 34, 35, 36, 37, 38)
	wantAtomic := AtomicETH{Addr: 0x0102030405060708, RKey: 0x090a0b0c, SwapAdd: 0x15161718191a1b1c, Compare: 0x1f20212223242526}
	for _, c := range []struct {
		clause string
		ext    []byte
		want   Packet
	}{
		{"9.2", nil, Packet{BTH: head(RCSendOnly)}},
		{"9.3.2", []byte{0, 0, 0, 0x11, 0, 0, 0, 5}, Packet{BTH: head(UDSendOnly), DETH: DETH{0x11, 5}}},
		{"9.3.3", reth, Packet{BTH: head(RCWriteFirst), RETH: wantRETH}},
		{"9.3.3", reth, Packet{BTH: head(RCReadRequest), RETH: wantRETH}},
		{"9.3.4", atomic, Packet{BTH: head(RCCompareSwap), AtomicETH: wantAtomic}},
		{"9.3.5", []byte{0x62, 0, 0, 9}, Packet{BTH: head(RCAcknowledge), AETH: AETH{NAKRemoteAccess, 9}}},
		{"9.5.3", []byte{0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8},
			Packet{BTH: head(RCAtomicAcknowledge), AETH: AETH{ACK, 9}, AtomicAck: 0x0102030405060708}},
		{"9.3.6", []byte{0xca, 0xfe, 0, 1}, Packet{BTH: head(RCSendOnlyImm), Imm: 0xcafe0001}},
		{"9.3.7", []byte{0, 0, 1, 2}, Packet{BTH: head(RCSendLastInvalidate), IETH: 0x102}},
		{"9.4.3", append(reth[:16:16], 0, 0, 0, 7), Packet{BTH: head(RCWriteOnlyImm), RETH: wantRETH, Imm: 7}},
		{"A14", []byte{0, 0xab, 0xcd, 0xef}, Packet{BTH: head(RCSendMiddle.Of(XRC)), XRCETH: XRCETH{0xabcdef}}},
		{"A14", append(append([]byte{0, 1, 2, 3}, reth...), 0, 0, 0, 7),
			Packet{BTH: head(RCWriteOnlyImm.Of(XRC)), XRCETH: XRCETH{0x010203}, RETH: wantRETH, Imm: 7}},
	} {
		var want []byte
		want = append(append(want, bth(byte(c.want.Opcode))...), c.ext...)
		if got := c.want.Append(nil); !bytes.Equal(got[:len(got)-3], want) {
			t.Errorf("IBTA %s, %v:\nexpected % x\nbuilt    % x", c.clause, c.want.Opcode, want, got)
		}
		var got Packet
		got.Parse(append(want, 1, 2, 3, 4)) // the padding is missing: fields only
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("IBTA %s, %v parsed wrongly:\n%s", c.clause, c.want.Opcode, d)
		}
	}
}

func TestPacketTruncatedAtEveryByteIsRefused(t *testing.T) {
	for _, o := range opcodes() {
		p := Packet{BTH: BTH{Opcode: o}}
		if o.Info().Payload {
			p.Payload, p.Pad = []byte{1, 2, 3, 4, 5}, 3
		}
		b := wire(&p)
		for n := range len(b) {
			var got Packet
			f := got.Parse(b[:n:n])
			switch whole := n - ICRCLen - o.Info().Len; {
			case n < BTHLen+ICRCLen || whole < 0:
				if f != Short {
					t.Errorf("%v cut to %d bytes: %v, expected Short", o, n, f)
				}
			case whole < int(p.Pad) || whole%4 != 0:
				if f != BadPad {
					t.Errorf("%v cut to %d bytes: %v, expected BadPad", o, n, f)
				}
			case f != OK: // shorter by whole words, and the padding still fits
				t.Errorf("%v cut to %d bytes: %v", o, n, f)
			}
		}
	}
}

func TestPacketFaultsAreNamed(t *testing.T) {
	build := func(h BTH, behind ...byte) []byte {
		b := make([]byte, BTHLen)
		h.put(b)
		return append(append(b, behind...), 0, 0, 0, 0)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want Fault
	}{
		{"nothing", nil, Short},
		{"15 bytes", make([]byte, 15), Short},
		{"zero bytes are an RC SEND First", make([]byte, 16), OK},
		{"undefined opcode", build(BTH{Opcode: 0x15}), BadOpcode},
		{"RD opcode", build(BTH{Opcode: 0x44}), BadOpcode},
		{"version 1", build(BTH{Opcode: RCSendOnly, Version: 1}), BadVersion},
		{"padding without payload", build(BTH{Opcode: RCSendOnly, Pad: 1}), BadPad},
		{"length no multiple of 4", build(BTH{Opcode: RCSendOnly}, 1, 2), BadPad},
		{"payload after an acknowledge", build(BTH{Opcode: RCAcknowledge}, 0, 0, 0, 0, 1, 2, 3, 4), ExtraPayload},
		{"payload after a READ request", build(BTH{Opcode: RCReadRequest}, make([]byte, 20)...), ExtraPayload},
		{"RETH cut", build(BTH{Opcode: RCReadRequest}, make([]byte, 12)...), Short},
	} {
		var p Packet
		if got := p.Parse(c.b); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestPacketPayloadCannotGrowIntoICRC(t *testing.T) {
	b := wire(&Packet{BTH: BTH{Opcode: RCSendOnly, Pad: 1}, Payload: []byte{1, 2, 3}})
	var p Packet
	if f := p.Parse(b); f != OK {
		t.Fatal(f)
	}
	if len(p.Payload) != 3 || cap(p.Payload) != 3 || &p.Payload[0] != &b[BTHLen] {
		t.Errorf("payload of length %d and capacity %d, expected 3 and 3, aliasing the packet", len(p.Payload), cap(p.Payload))
	}
}

func TestPacketStringHasTheHeadersOfTheOpcode(t *testing.T) {
	for _, c := range []struct {
		p    Packet
		want string
	}{
		{Packet{BTH: BTH{Opcode: RCSendOnlyImm, DestQPN: 0x12, PSN: 0xaa, PKey: 0xffff, AckReq: true, Solicited: true}, Imm: 1, Payload: make([]byte, 8)},
			"RC SEND Only with Immediate QP 0x000012 PSN 0x0000aa imm 0x1 len 8 ackreq solicited"},
		{Packet{BTH: BTH{Opcode: RCAcknowledge, DestQPN: 0x12, PSN: 5, PKey: 0xffff}, AETH: AETH{NAKRemoteAccess, 3}},
			"RC Acknowledge QP 0x000012 PSN 0x000005 NAK Remote Access Error MSN 3"},
		{Packet{BTH: BTH{Opcode: RCReadRequest, PKey: 1}, RETH: RETH{0x1000, 0x22, 4096}},
			"RC RDMA READ Request QP 0x000000 PSN 0x000000 VA 0x1000 R_Key 0x22 DMA len 4096 P_Key 0x0001"},
		{Packet{BTH: BTH{Opcode: UDSendOnly, PKey: 0xffff, Pad: 2, FECN: true}, DETH: DETH{0x11, 7}, Payload: []byte{1, 2}},
			"UD SEND Only QP 0x000000 PSN 0x000000 src 0x000007 Q_Key 0x11 len 2 pad 2 FECN"},
		{Packet{BTH: BTH{Opcode: RCCompareSwap, PKey: 0xffff}, AtomicETH: AtomicETH{8, 9, 10, 11}},
			"RC CmpSwap QP 0x000000 PSN 0x000000 VA 0x8 R_Key 0x9 swap/add 0xa compare 0xb"},
		{Packet{BTH: BTH{Opcode: 0x15}}, "opcode 0x15 QP 0x000000 PSN 0x000000"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("\nexpected %s\nfound    %s", c.want, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, o := range opcodes() {
		f.Add(wire(&Packet{BTH: BTH{Opcode: o, PKey: 0xffff}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		if p.Parse(b) != OK {
			_ = p.String()
			return
		}
		// What was parsed can be built, and what was built parses to the same.
		again := wire(&p)
		if len(again) != len(b) {
			t.Fatalf("%d bytes parsed, %d built", len(b), len(again))
		}
		var q Packet
		if fault := q.Parse(again); fault != OK {
			t.Fatalf("rebuilt packet refused: %v", fault)
		}
		if d := cmp.Diff(p, q); d != "" {
			t.Fatalf("rebuilt packet differs:\n%s", d)
		}
		if _ = p.String(); !bytes.Equal(again, wire(&q)) {
			t.Fatal("building twice gives different bytes")
		}
	})
}

// IBTA 9.7.7.2.4, table 46.
func TestCreditsAreEncodedAsTheNextLowerCount(t *testing.T) {
	for n, want := range map[int]uint32{0: 0, 1: 1, 4: 4, 5: 4, 6: 6, 7: 6, 9: 8, 12: 12, 127: 96, 128: 128, 1 << 20: 32768} {
		s := Credits(n)
		if got, ok := s.Credits(); !ok || got != want || !s.IsACK() {
			t.Errorf("%d credits are %v, read as %d, %v; expected %d", n, s, got, ok, want)
		}
	}
	for _, s := range []Syndrome{ACKNoCredits, RNRNAK | 3, NAKSequence} {
		if n, ok := s.Credits(); ok {
			t.Errorf("%v has %d credits", s, n)
		}
	}
}
