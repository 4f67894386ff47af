package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// datagram returns a RoCE v2 packet with its IP header, as the Writer builds it.
func datagram(t testing.TB, e *trace.Event) []byte {
	t.Helper()
	var w Writer
	if err := w.build(&e.Packet, time.Time{}); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(w.frame)
}

// classic writes frames to a pcap file of a link type.
func classic(t testing.TB, link layers.LinkType, frames ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65536, link); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		ci := gopacket.CaptureInfo{Timestamp: epoch, CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(ci, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func TestReaderLinkTypes(t *testing.T) {
	mac := make([]byte, 12)
	for _, v6 := range []bool{false, true} {
		src, dst, ether, family := hostA, hostB, uint16(0x0800), byte(2)
		if v6 {
			src, dst, ether, family = v6A, v6B, 0x86dd, 30
		}
		ip := datagram(t, event(trace.Sent, src, dst, 99, op(ib.RCSendOnlyImm, 7, 5)))
		sll := append(append([]byte{0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0}, be16(ether)...), ip...)
		sll2 := append(append(be16(ether), 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0), ip...)
		for _, c := range []struct {
			name  string
			link  layers.LinkType
			frame []byte
		}{
			{"Ethernet", layers.LinkTypeEthernet, append(append(mac[:12:12], be16(ether)...), ip...)},
			{"Ethernet with padding", layers.LinkTypeEthernet, append(append(append(mac[:12:12], be16(ether)...), ip...), 0, 0, 0)},
			{"VLAN", layers.LinkTypeEthernet, append(append(append(mac[:12:12], 0x81, 0, 0, 5), be16(ether)...), ip...)},
			{"two VLAN tags", layers.LinkTypeEthernet,
				append(append(append(mac[:12:12], 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6), be16(ether)...), ip...)},
			{"cooked", layers.LinkTypeLinuxSLL, sll},
			{"cooked 2", layers.LinkTypeLinuxSLL2, sll2},
			{"raw", layers.LinkTypeRaw, ip},
			{"raw, other number", 12, ip},
			{"loopback, little endian", layers.LinkTypeNull, append([]byte{family, 0, 0, 0}, ip...)},
			{"loopback, big endian", layers.LinkTypeLoop, append([]byte{0, 0, 0, family}, ip...)},
		} {
			all := readAll(t, classic(t, c.link, c.frame))
			if len(all) != 1 {
				t.Errorf("%s, IPv6 %v: %d packets, expected 1", c.name, v6, len(all))
				continue
			}
			p := all[0]
			if p.ICRC != Good || p.Opcode != ib.RCSendOnlyImm || p.PSN != 7 || p.Src != src || p.Dst != dst {
				t.Errorf("%s, IPv6 %v: read as %v from %v to %v, ICRC %d", c.name, v6, &p.Packet, p.Src, p.Dst, p.ICRC)
			}
		}
	}
}

func TestReaderOtherPacketsAreCountedAndSkipped(t *testing.T) {
	good := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, 7, 5)))
	other := bytes.Clone(good)
	binary.BigEndian.PutUint16(other[22:], 4792)
	fragment := bytes.Clone(good)
	fragment[6] = 0x20
	later := bytes.Clone(good)
	later[6], later[7] = 0, 1
	tcp := bytes.Clone(good)
	tcp[9] = 6
	file := classic(t, layers.LinkTypeRaw, other, fragment, later, tcp, []byte{0x45}, nil, good)
	all := readAll(t, file)
	if len(all) != 1 || all[0].Number != 7 {
		t.Fatalf("read %d packets, expected the seventh alone", len(all))
	}
	r, _ := NewReader(bytes.NewReader(file))
	for r.Next(new(Packet)) == nil {
	}
	if n, roce := r.Packets(); n != 7 || roce != 1 {
		t.Errorf("counted %d and %d, expected 7 and 1", n, roce)
	}
	if all = readAll(t, file, 4792); len(all) != 2 {
		t.Errorf("with port 4792: %d packets, expected 2", len(all))
	}
}

func TestReaderICRCVerdicts(t *testing.T) {
	good := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, 7, 400)))
	flipped := bytes.Clone(good)
	flipped[100] ^= 1
	routed := bytes.Clone(good) // with changes that routers make and the ICRC does not cover
	routed[1], routed[8] = 3, 7
	renumbered := bytes.Clone(good)
	renumbered[5]++
	all := readAll(t, classic(t, layers.LinkTypeRaw, good, flipped, routed, renumbered))
	for n, want := range []Verdict{Good, Bad, Good, Bad} {
		if all[n].ICRC != want {
			t.Errorf("packet %d: verdict %d, expected %d", n+1, all[n].ICRC, want)
		}
		if bad := all[n].Expected != all[n].Found; bad != (want == Bad) {
			t.Errorf("packet %d: expected %#x, found %#x", n+1, all[n].Expected, all[n].Found)
		}
	}
	if all[2].ECN() != 3 {
		t.Errorf("ECN %d, expected 3", all[2].ECN())
	}
}

func TestReaderTruncatedPacketHasItsHeaders(t *testing.T) {
	ip := datagram(t, event(trace.Sent, hostA, hostB, 99, write(ib.RCWriteFirst, 7, 1024, 2000)))
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	w.WriteFileHeader(64, layers.LinkTypeRaw)
	for _, n := range []int{96, 44, 32} {
		w.WritePacket(gopacket.CaptureInfo{Timestamp: epoch, CaptureLength: n, Length: len(ip)}, ip[:n])
	}
	all := readAll(t, b.Bytes())
	if len(all) != 3 {
		t.Fatalf("%d packets", len(all))
	}
	r, err := NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var p Packet
	for n, want := range []ib.Fault{ib.OK, ib.Short, ib.Short} {
		if err := r.Next(&p); err != nil {
			t.Fatal(err)
		}
		if p.Fault != want || p.ICRC != Unchecked || !p.Truncated {
			t.Errorf("packet %d: fault %v, ICRC %d, truncated %v, expected %v", n+1, p.Fault, p.ICRC, p.Truncated, want)
		}
		if n == 0 && (p.RETH.Length != 2000 || len(p.Payload) != 1024) {
			t.Errorf("headers read as %v", &p.Packet)
		}
		if s := Line(&p, epoch, NewAnalyzer().Add(&p)); strings.Contains(s, "[ok]") || !strings.Contains(s, "ICRC unchecked") {
			t.Errorf("printed as %s", s)
		}
	}
}

func TestReaderRefusesOtherFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"empty":                  {"", "0 bytes"},
		"short":                  {"abc", "3 bytes"},
		"text":                   {"hello, world", "magic number 0x6c6c6568"},
		"gzip":                   {"\x1f\x8b\x09\x00aaaaaaaaaa", "gzip"},
		"pcapng of nothing more": {"\x0a\x0d\x0d\x0a", "pcapng"},
		"pcap of nothing more":   {"\xd4\xc3\xb2\xa1\x02", "pcap"},
	} {
		if r, err := NewReader(strings.NewReader(c.file)); err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected an error with %q", name, err, c.want)
		}
	}
}

func TestReaderIncompleteFileIsAnError(t *testing.T) {
	whole := writeAll(t, event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 1, 4)), event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 2, 4)))
	cut := 0
	for n := range len(whole) {
		packets := -1
		r, err := NewReader(bytes.NewReader(whole[:n]))
		for err == nil {
			err = r.Next(new(Packet))
			packets++
		}
		if n > len(whole)-50 && packets != 1 {
			t.Errorf("cut at %d: %d packets before the end, expected 1", n, packets)
		}
		if err != io.EOF {
			cut++
		}
		if n > 100 && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	// A file that ends between blocks looks complete: after the section header, after
	// the interface, and after the first packet.
	if want := len(whole) - 3; cut != want {
		t.Errorf("%d of %d incomplete files were detected, expected %d", cut, len(whole), want)
	}
}

// A block that claims a gigabyte is refused before memory is allocated for it.
func TestReaderLongBlockIsRefused(t *testing.T) {
	file := writeAll(t)
	file = append(file, 6, 0, 0, 0, 0, 0, 0, 0x40)
	r, err := NewReader(io.MultiReader(bytes.NewReader(file), zeros{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Next(new(Packet)); err == nil || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("%v, expected a refusal of the length", err)
	}
	// A block of an unused type is skipped whatever its length.
	file = append(writeAll(t), 0x0a, 0, 0, 0, 0, 0, 8, 0)
	file = append(file, make([]byte, 8<<16-8)...)
	file = append(file, writeAll(t, event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 1, 4)))...)
	if all := readAll(t, file); len(all) != 1 {
		t.Errorf("%d packets after a long unknown block, expected 1", len(all))
	}
}

func TestReaderInterfacesAreBounded(t *testing.T) {
	file := writeAll(t)
	one := []byte{1, 0, 0, 0, 20, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0}
	r, err := NewReader(bytes.NewReader(append(file, bytes.Repeat(one, maxInterfaces+1)...)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Next(new(Packet)); err == nil || err == io.EOF {
		t.Errorf("%v, expected a refusal", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Recorded traffic of Linux's Soft RoCE has no faults except the NAKs that the
// scenarios provoke, and both directions of every connection are paired.
func TestReaderAndAnalyzerOnGoldenCaptures(t *testing.T) {
	for _, name := range []string{"golden_rxe_ipv4.pcapng", "golden_rxe_ipv6.pcapng"} {
		file, err := os.ReadFile("../../interop/suites/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		a := NewAnalyzer()
		levels := map[Level]int{}
		reasons := map[reason.Reason]int{}
		all := readAll(t, file)
		for _, p := range all {
			if p.ICRC != Good || p.Fault != ib.OK {
				t.Errorf("%s: packet %d: ICRC %d, fault %v", name, p.Number, p.ICRC, p.Fault)
			}
			for _, f := range a.Add(&p) {
				levels[f.Level]++
				reasons[f.Detail.Reason]++
				switch f.Detail.Reason {
				case reason.NAKRemoteAccess, reason.NAKInvalidRequest, reason.NAKRemoteOperational, reason.NoReceive,
					reason.NAKSequence, reason.SequenceDuplicate:
				default:
					t.Errorf("%s: packet %d %v: %v", name, p.Number, &p.Packet, f)
				}
			}
		}
		for _, want := range []reason.Reason{reason.NAKRemoteAccess, reason.NAKInvalidRequest, reason.NAKRemoteOperational, reason.NoReceive} {
			if reasons[want] == 0 {
				t.Errorf("%s: %v was not found", name, want)
			}
		}
		if len(all) < 200 || a.Untracked() != 0 {
			t.Errorf("%s: %d packets, %d untracked", name, len(all), a.Untracked())
		}
		for _, c := range a.Connections() {
			if c.Opcode.Info().Kind == ib.KindReadResponse && c.PeerQPN == 0 {
				t.Errorf("%s: the other direction of %+v was not found", name, c)
			}
		}
	}
}

// The Reader and tshark dissect the golden files identically.
func TestReaderAgreesWithTshark(t *testing.T) {
	for _, name := range []string{"golden_rxe_ipv4.pcapng", "golden_rxe_ipv6.pcapng"} {
		file, err := os.ReadFile("../../interop/suites/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		out := tshark(t, file, "-T", "fields", "-E", "separator=|", "-e", "frame.number", "-e", "infiniband.bth.opcode",
			"-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "infiniband.bth.padcnt", "-e", "infiniband.bth.a",
			"-e", "infiniband.bth.se", "-e", "infiniband.reth.dmalen", "-e", "infiniband.aeth.msn")
		var want, got []string
		want = strings.Split(out, "\n")
		for _, p := range readAll(t, file) {
			f := []any{p.Number, uint8(p.Opcode), qpn(p.DestQPN), uint32(p.PSN), p.Pad, bit(p.AckReq), bit(p.Solicited), "", ""}
			h := p.Opcode.Info().Headers
			if h&ib.HasRETH != 0 {
				f[7] = p.RETH.Length
			}
			if h&ib.HasAETH != 0 {
				f[8] = uint32(p.AETH.MSN)
			}
			got = append(got, strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v|", len(f)), f...), "|"))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: tshark (-) and the Reader (+) differ:\n%s", name, d)
		}
	}
}

func TestLineIsOneLine(t *testing.T) {
	p := newScript(t).packet(hostA, hostB, op(ib.RCSendOnly, 0xaa, 8))
	p.DestQPN, p.TOS, p.Time = 0x12, 3, epoch.Add(1500*time.Microsecond)
	p.Comments = []string{"a\nb\x1b[2J"}
	want := "     1    0.001500 10.0.0.1:50000 > 10.0.0.2:4791 RC SEND Only QP 0x000012 PSN 0x0000aa len 8 CE [note: hello] {a b [2J}"
	if got := Line(p, epoch, []Finding{{Text: "hello"}}); got != want {
		t.Errorf("\nexpected %s\nfound    %s", want, got)
	}
	p.TOS, p.Comments = 0, nil
	if got := Line(p, epoch, nil); !strings.HasSuffix(got, " len 8 [ok]") {
		t.Errorf("found %s", got)
	}
	p.ICRC = Bad
	if got := Line(p, epoch, nil); !strings.HasSuffix(got, "[ICRC bad]") {
		t.Errorf("found %s", got)
	}
}

func qpn(q uint32) string { return fmt.Sprintf("0x%06x", q) }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
