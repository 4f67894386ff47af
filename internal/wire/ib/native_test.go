package ib

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sample of a local packet in IBTA 7.8.3, with its ICRC. Its VCRC was computed with
// a function that gives the VCRC of each of 43 packets that other people recorded on links.
func samplePacket(t testing.TB) []byte {
	return unhex(t, "70 12 37 5c 00 0e 17 d2 0a 20 24 87 00 87 b1 b3 00 0d ec 2a 01 71 0a 1c 01 5d 40 02 38 f2 7a 05"+
		"00 00 00 0e bb 88 4d 85 fd 5c fb a4 72 8b c0 69 0e d4 00 00 96 25 b7 5a 45 fa")
}

func TestNativeSampleOfTheSpecification(t *testing.T) {
	b := samplePacket(t)
	var n Native
	if f := n.Parse(b); f != OK {
		t.Fatalf("refused: %v", f)
	}
	want := LRH{VL: 7, SL: 1, Next: LocalBTH, DLID: 0x375c, Words: 14, SLID: 0x17d2}
	if n.LRH != want {
		t.Errorf("LRH %+v, expected %+v", n.LRH, want)
	}
	if sum := NativeICRC(b[:len(b)-VCRCLen]); sum != ICRC(n.Body) {
		t.Errorf("ICRC %#08x, the packet has %#08x", sum, ICRC(n.Body))
	}
	if want, found := CheckVCRC(b); want != found {
		t.Errorf("VCRC %#04x, the packet has %#04x", want, found)
	}
	var p Packet
	if f := p.Parse(n.Body); f != OK || p.Opcode != RCWriteOnly || p.DestQPN != 0x87b1b3 {
		t.Fatalf("%v, fault %v", &p, f)
	}
	if again := AppendNative(nil, n.LRH, nil, &p); !bytes.Equal(again, b) {
		t.Errorf("built again differs:\nexpected % x\nfound    % x", b, again)
	}
}

// The expected ICRC is computed with hash/crc32 over a copy with its masked fields set.
func TestNativePacketsRoundTripWithTheirCRCs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacket(t, rapid.SampledFrom(opcodes()).Draw(t, "opcode"))
		l := LRH{VL: uint8(rapid.IntRange(0, 15).Draw(t, "VL")), SL: uint8(rapid.IntRange(0, 15).Draw(t, "SL")),
			Next: LocalBTH, DLID: LID(rapid.Uint16().Draw(t, "DLID")), SLID: LID(rapid.Uint16().Draw(t, "SLID"))}
		g := GRH{TrafficClass: rapid.Uint8().Draw(t, "class"), FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"),
			NextHeader: NextBTH, HopLimit: rapid.Uint8().Draw(t, "hops"), DGID: [16]byte{0xfe, 0x80, 15: rapid.Uint8().Draw(t, "DGID")}}
		if rapid.Bool().Draw(t, "global") {
			l.Next = GlobalGRH
		}
		b := AppendNative([]byte("before"), l, &g, p)[len("before"):]
		masked := bytes.Clone(b[:len(b)-VCRCLen-ICRCLen])
		masked[0] |= 0xf0
		masked[l.HeaderLen()+4] = 0xff
		if l.Next == GlobalGRH {
			copy(masked, bytes.Repeat([]byte{0xff}, LRHLen))
			copy(masked[LRHLen:], []byte{masked[LRHLen] | 0xf, 0xff, 0xff, 0xff})
			masked[LRHLen+7] = 0xff
		}
		if want, got := crc32.ChecksumIEEE(masked), ICRC(b[:len(b)-VCRCLen]); got != want {
			t.Fatalf("ICRC %#08x, expected %#08x", got, want)
		}
		var n Native
		if f := n.Parse(b); f != OK {
			t.Fatalf("own packet refused: %v", f)
		}
		var back Packet
		if f := back.Parse(n.Body); f != OK {
			t.Fatalf("own body refused: %v", f)
		}
		l.Words, g.PayLen = uint16((len(b)-VCRCLen)/4), n.GRH.PayLen
		if d := cmp.Diff(*p, back); d != "" || n.LRH != l || l.Next == GlobalGRH && n.GRH != g {
			t.Fatalf("built and parsed differ: %+v %+v, expected %+v %+v\n%s", n.LRH, n.GRH, l, g, d)
		}
	})
}

func TestNativeFaultsAreNamed(t *testing.T) {
	good := samplePacket(t)
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	global := AppendNative(nil, LRH{Next: GlobalGRH}, &GRH{}, &Packet{BTH: BTH{Opcode: RCAcknowledge}})
	bad := func(at int, to byte) []byte {
		b := bytes.Clone(global)
		b[at] = to
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want Fault
	}{
		{"nothing", nil, Short},
		{"link version", changed(0, 0x71), BadLinkVersion},
		{"length 0", changed(5, 0), Short},
		{"shorter than its length", good[:len(good)-1], Short},
		{"longer than its length", append(bytes.Clone(good), 0), BadLength},
		{"raw packet", changed(1, 0x10), OK},
		{"local packet without a BTH", append([]byte{0, 2, 0, 0, 0, 5, 0, 0}, make([]byte, 14)...), Short},
		{"GRH of version 4", bad(LRHLen, 4<<4), BadGRH},
		{"GRH with another next header", bad(LRHLen+6, 17), BadGRH},
		{"GRH with another length", bad(LRHLen+5, 1), BadLength},
		{"no room for a GRH", append([]byte{0, 3, 0, 0, 0, 6, 0, 0}, make([]byte, 18)...), Short},
	} {
		var n Native
		if got := n.Parse(c.b); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestFlowControlLiesWhereTheSpecificationPutsIt(t *testing.T) {
	f := FlowControl{Op: FlowInitialize, Sent: 0xabc, VL: 3, Limit: 0x123}
	var b [FlowControlLen]byte
	f.Put(b[:])
	if want := unhex(t, "1abc 3123"); !bytes.Equal(b[:4], want) {
		t.Errorf("% x, expected % x", b, want)
	}
	if want, found := CheckVCRC(b[:]); want != found {
		t.Errorf("LPCRC %#04x, expected %#04x", found, want)
	}
	var back FlowControl
	if !back.Parse(b[:]) || back != f {
		t.Errorf("parsed %+v, expected %+v", back, f)
	}
	if back.Parse(b[:5]) || back.Parse(append(b[:], 0)) {
		t.Error("a packet of another length is a link packet")
	}
}

func TestBlocksWrap(t *testing.T) {
	if b := Blocks(4090).Add(10); b != 4 || b.Sub(4090) != 10 || Blocks(4090).Sub(b) != 4086 {
		t.Errorf("4090+10 = %d, differences %d and %d", b, b.Sub(4090), Blocks(4090).Sub(b))
	}
	for words, want := range map[uint16]int{1: 1, 16: 1, 17: 2, 32: 2, 1055: 66} {
		if got := PacketBlocks(words); got != want {
			t.Errorf("%d words take %d blocks, expected %d", words, got, want)
		}
	}
}

func FuzzNative(f *testing.F) {
	f.Add(samplePacket(f))
	f.Add(AppendNative(nil, LRH{Next: GlobalGRH}, &GRH{HopLimit: 1}, &Packet{BTH: BTH{Opcode: UDSendOnly}, Payload: make([]byte, 8)}))
	f.Add([]byte{0x1a, 0xbc, 0x31, 0x23, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var link FlowControl
		if link.Parse(b) {
			var again [FlowControlLen]byte
			if link.Put(again[:]); !bytes.Equal(again[:4], b[:4]) {
				t.Fatalf("link packet % x built again as % x", b, again)
			}
		}
		var n Native
		if n.Parse(b) != OK || n.LRH.Next < LocalBTH {
			return
		}
		_ = NativeICRC(b[:len(b)-VCRCLen])
		var p Packet
		if p.Parse(n.Body) != OK {
			return
		}
		again := AppendNative(nil, n.LRH, &n.GRH, &p)
		var m Native
		if f := m.Parse(again); f != OK || len(again) != len(b) || m.LRH != n.LRH || m.GRH != n.GRH {
			t.Fatalf("rebuilt as %+v, fault %v; expected %+v", m, f, n)
		}
		want, found := CheckVCRC(again)
		if want != found || NativeICRC(again[:len(again)-VCRCLen]) != ICRC(m.Body) {
			t.Fatal("rebuilt packet has a wrong CRC")
		}
	})
}

func BenchmarkNativeCRCs(b *testing.B) {
	for _, n := range []int{0, 2048, 4096} {
		packet := AppendNative(nil, LRH{Next: LocalBTH}, nil, &Packet{BTH: BTH{Opcode: RCSendOnly}, Payload: make([]byte, n)})
		for name, f := range map[string]func(){
			"ICRC": func() { NativeICRC(packet[:len(packet)-VCRCLen]) },
			"VCRC": func() { CheckVCRC(packet) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
