package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

var epoch = time.Unix(1700000000, 123456789).UTC()

// event returns a device's event for a packet, in pieces and with its ICRC.
func event(k trace.Kind, src, dst netip.AddrPort, id uint16, p ib.Packet) *trace.Event {
	if p.PKey == 0 {
		p.PKey = 0xffff
	}
	p.Pad = ib.PadLen(len(p.Payload))
	h := ib.NewPseudoHeader(src, dst)
	head := make([]byte, ib.MaxHeaderLen)
	head = head[:p.PutHeaders(head)]
	tail := make([]byte, int(p.Pad)+ib.ICRCLen)
	n := len(head) + len(p.Payload) + len(tail)
	crc := ib.Extend(ib.Extend(h.Join(n, id, head[:ib.BTHLen], head[ib.BTHLen:]), p.Payload), tail[:p.Pad])
	ib.PutICRC(tail[p.Pad:], crc)
	return &trace.Event{Kind: k, Time: epoch, QPN: p.DestQPN,
		Packet: trace.Packet{Src: src, Dst: dst, TOS: 2, TTL: 64, ID: id, Pieces: [][]byte{head, p.Payload, tail}}}
}

// everyOpcode returns one packet of each opcode.
func everyOpcode() (all []ib.Packet) {
	for o := range 256 {
		i := ib.Opcode(o).Info()
		if i == nil {
			continue
		}
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.Opcode(o), DestQPN: 0x12, PSN: 5}}
		p.RETH = ib.RETH{Addr: 0x1000, RKey: 0x22, Length: 5}
		p.DETH = ib.DETH{QKey: 0x11, SrcQPN: 3}
		if i.Payload {
			p.Payload = []byte{1, 2, 3, 4, 5}
			if i.Kind == ib.KindCongestion {
				p.Payload = make([]byte, 16)
			}
		}
		all = append(all, p)
	}
	return all
}

func writeAll(t testing.TB, events ...*trace.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		w.Trace(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(t *testing.T, file []byte, ports ...uint16) (all []Packet) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file), ports...)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var p Packet
		if err := r.Next(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		p.Data = bytes.Clone(p.Data)
		p.Parse(p.Data) // the payload must point into the copy
		all = append(all, p)
	}
}

var v6A, v6B = netip.MustParseAddrPort("[fd00::1]:50000"), netip.MustParseAddrPort("[fd00::2]:4791")

func TestWriterPacketsReadBackWithGoodICRC(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{{hostA, hostB}, {v6A, v6B},
		{netip.AddrPortFrom(netip.AddrFrom16(hostA.Addr().As16()), 50000), hostB}} {
		var events []*trace.Event
		for n, p := range everyOpcode() {
			events = append(events, event(trace.Kind(n%2), ends[0], ends[1], uint16(n*1000), p))
		}
		all := readAll(t, writeAll(t, events...))
		if len(all) != len(events) {
			t.Fatalf("%d packets read, %d written", len(all), len(events))
		}
		for n, p := range all {
			e := events[n].Packet
			want := bytes.Join(e.Pieces, nil)
			if !bytes.Equal(p.Data, want) || p.Fault != ib.OK || p.ICRC != Good {
				t.Errorf("%v: fault %v, ICRC %d, data\n% x expected\n% x", &p.Packet, p.Fault, p.ICRC, p.Data, want)
			}
			src := netip.AddrPortFrom(e.Src.Addr().Unmap(), e.Src.Port())
			if p.Src != src || p.Dst != e.Dst || p.TOS != 2 || p.TTL != 64 || !p.Time.Equal(epoch) || p.Number != n+1 {
				t.Errorf("packet %d read as %+v", n+1, p)
			}
			if src.Addr().Is4() && p.ID != e.ID {
				t.Errorf("identification %d, expected %d", p.ID, e.ID)
			}
			if want := []Direction{Outbound, Inbound}[n%2]; p.Direction != want {
				t.Errorf("direction %d, expected %d", p.Direction, want)
			}
			if i := p.Opcode.Info(); i.Payload && i.Kind != ib.KindCongestion && string(p.Payload) != "\x01\x02\x03\x04\x05" {
				t.Errorf("%v: payload % x", p.Opcode, p.Payload)
			}
		}
	}
}

func TestWriterRefusalsAreCommentsOfTheirPacket(t *testing.T) {
	send := op(ib.RCSendOnly, 5, 4)
	send.DestQPN = 0x12
	first := event(trace.Sent, hostA, hostB, 0, send)
	second := event(trace.Received, hostA, hostB, 0, send)
	refused := &trace.Event{Kind: trace.Refused, QPN: 0x12, Detail: reason.Detail{Reason: reason.SequenceAhead, Expected: 4, Found: 5}}
	state := &trace.Event{Kind: trace.State, QPN: 0x12, From: uint8(qp.RTS), To: uint8(qp.Err)}
	// A packet that comes with its refusal is written once.
	dropped := event(trace.Refused, hostA, hostB, 0, op(ib.RCSendOnly, 77, 8))
	dropped.Detail = reason.Detail{Reason: reason.PacketQPN, Expected: 3, Found: 0}
	known := event(trace.Refused, hostA, hostB, 0, send)
	known.Detail = refused.Detail

	all := readAll(t, writeAll(t, state, first, second, refused, known, state, dropped, first))
	if len(all) != 4 {
		t.Fatalf("%d packets, expected 4", len(all))
	}
	ahead := "QP 0x000012 SEQUENCE_AHEAD: PSN sequence error: expected 0x000004, found 0x000005"
	for n, want := range [][]string{
		{"QP 0x000012 RTS -> ERR"},
		{ahead, ahead, "QP 0x000012 RTS -> ERR"},
		{"QP 0x000000 PACKET_QPN: no such queue pair: 3 exist, found QPN 0x000000"},
		nil,
	} {
		if got := all[n].Comments; strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("packet %d: comments %q, expected %q", n+1, got, want)
		}
	}
	if all[2].PSN != 77 || all[2].Direction != Inbound {
		t.Errorf("dropped packet read as %v", &all[2].Packet)
	}
}

func TestWriterNamesWholeAddresses(t *testing.T) {
	refused := &trace.Event{Kind: trace.Refused, QPN: 0x12, Detail: reason.Detail{Reason: reason.PacketSource, Expected: 1, Found: 1}}
	refused.Peer, refused.Source = netip.MustParseAddr("fe80::1:1%eth0"), netip.MustParseAddr("fe80::2:1%eth0")
	all := readAll(t, writeAll(t, event(trace.Received, hostA, hostB, 0, op(ib.RCSendOnly, 5, 4)), refused))
	const want = "QP 0x000012 PACKET_SOURCE: packet not from the connection's peer: expected address fe80::1:1%eth0, found fe80::2:1%eth0"
	if c := all[0].Comments; len(c) != 1 || c[0] != want {
		t.Errorf("found %q, expected %q", c, want)
	}
}

func TestWriterCommentsAreBounded(t *testing.T) {
	events := []*trace.Event{event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 5, 4))}
	for range 1000 {
		events = append(events, &trace.Event{Kind: trace.Refused, Detail: reason.Detail{Reason: reason.NoReceive}})
	}
	all := readAll(t, writeAll(t, events...))
	c := all[0].Comments
	if len(c) != maxComments+1 || c[maxComments] != fmt.Sprintf("and %d more", 1000-maxComments) {
		t.Errorf("%d comments, the last %q", len(c), c[len(c)-1])
	}
}

// failing is an io.Writer that fails after a number of bytes.
type failing struct{ room int }

var errFull = errors.New("no space")

func (f *failing) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterErrorIsKeptUntilClose(t *testing.T) {
	w, err := NewWriter(&failing{100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	e := event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 5, 4096))
	for range 100 {
		w.Trace(e)
	}
	if n := w.Packets(); n == 0 || n >= 100 {
		t.Errorf("%d packets counted, expected those before the failure", n)
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("Flush: %v", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	if err := w.Close(); err != ErrClosed {
		t.Errorf("second Close: %v", err)
	}
	w.Trace(e) // ignored
}

func TestWriterContinuesAfterAnOversizedPacket(t *testing.T) {
	var b bytes.Buffer
	w, _ := NewWriter(&b)
	w.Trace(&trace.Event{Packet: trace.Packet{Src: hostA, Dst: hostB, Pieces: [][]byte{make([]byte, 70000)}}})
	w.Trace(event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 5, 4)))
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "70000") {
		t.Errorf("Close: %v, expected the size", err)
	}
	if all := readAll(t, b.Bytes()); len(all) != 1 {
		t.Errorf("%d packets, expected the good one", len(all))
	}
}

func TestWriterConcurrentStreams(t *testing.T) {
	var b bytes.Buffer
	w, _ := NewWriter(&b)
	var wg sync.WaitGroup
	for q := range uint32(4) {
		var s trace.Stream
		detach := s.Attach(w)
		wg.Go(func() {
			for n := range 100 {
				p := op(ib.RCSendOnly, 0, n)
				p.DestQPN = q
				s.Emit(event(trace.Sent, hostA, hostB, 0, p))
				s.Refuse(q, reason.Detail{Reason: reason.NoReceive})
			}
			detach()
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	count := map[uint32]int{}
	for _, p := range readAll(t, b.Bytes()) {
		if p.ICRC != Good {
			t.Fatalf("damaged packet: %v", &p.Packet)
		}
		count[p.DestQPN]++
	}
	for q := range uint32(4) {
		if count[q] != 100 {
			t.Errorf("%d packets of QP %d, expected 100", count[q], q)
		}
	}
}

// tshark runs the dissector on a file and returns its output. If tshark is not
// installed it skips the test, or fails it in CI.
func tshark(t *testing.T, file []byte, args ...string) string {
	t.Helper()
	testenv.Programs(t, "tshark")
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("tshark", append([]string{"-r", name, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"--disable-protocol", "rpcordma"}, args...)...) // it claims any payload
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	return strings.TrimRight(string(out), "\n")
}

func TestWriterFileIsValidForTshark(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{{hostA, hostB}, {v6A, v6B}} {
		var events []*trace.Event
		packets := everyOpcode()
		for _, p := range packets {
			events = append(events, event(trace.Sent, ends[0], ends[1], 7, p))
		}
		file := writeAll(t, events...)
		out := tshark(t, file, "-T", "fields", "-E", "separator=|", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp",
			"-e", "infiniband.bth.psn", "-e", "ip.checksum.status", "-e", "udp.checksum.status", "-e", "_ws.malformed",
			"-e", "_ws.expert.message", "-e", "frame.packet_flags_direction", "-e", "frame.protocols")
		lines := strings.Split(out, "\n")
		if len(lines) != len(packets) {
			t.Fatalf("tshark dissects %d packets, expected %d:\n%s", len(lines), len(packets), out)
		}
		for n, line := range lines {
			f := strings.Split(line, "|")
			ipOK, udpOK := "1", "3" // good, and not present
			if ends[0].Addr().Is6() {
				ipOK, udpOK = "", "1"
			}
			want := []string{fmt.Sprint(uint8(packets[n].Opcode)), "0x000012", "5", ipOK, udpOK, "", "", "0x00000002"}
			if strings.Join(f[:len(want)], "|") != strings.Join(want, "|") || !strings.Contains(f[len(want)], "infiniband") {
				t.Errorf("%v: tshark prints %q, expected %q", packets[n].Opcode, f, want)
			}
		}
	}
}

func TestWriterInterfaceAndCommentsInTshark(t *testing.T) {
	send := op(ib.RCWriteOnlyImm, 5, 4)
	send.RETH = ib.RETH{Addr: 0x1122334455667788, RKey: 0xabcd, Length: 4}
	send.Imm, send.DestQPN = 0x01020304, 0x12
	file := writeAll(t, event(trace.Received, hostA, hostB, 1, send),
		&trace.Event{Kind: trace.Refused, QPN: 0x12, Detail: reason.Detail{Reason: reason.KeyBounds, Expected: 1, Found: 2}})
	out := tshark(t, file, "-V")
	for _, want := range []string{"RDMA WRITE Only with Immediate", "0x1122334455667788", "KEY_BOUNDS", "Direction: Inbound",
		"Immediate Data: 01020304", "Destination Queue Pair: 0x000012"} {
		if !strings.Contains(out, want) {
			t.Errorf("tshark's dissection lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

func BenchmarkWriter(b *testing.B) {
	for _, n := range []int{64, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, err := NewWriter(io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			e := event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 5, n))
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				w.Trace(e)
			}
		})
	}
}
