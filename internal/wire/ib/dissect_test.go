package ib

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// Types of ERF records.
const (
	erfInfiniBand     = 21
	erfInfiniBandLink = 25
)

// pcap returns a capture file of ERF records, the form in which tshark of any version takes
// InfiniBand packets.
func pcap(packets ...[]byte) []byte {
	const (
		linkTypeERF = 197
		headerLen   = 16 // of ERF
	)
	le, be := binary.LittleEndian, binary.BigEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint32(b, 2|4<<16)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(le.AppendUint32(b, 1<<16), linkTypeERF)
	for _, p := range packets {
		kind := byte(erfInfiniBand)
		if len(p) == FlowControlLen {
			kind, p = erfInfiniBandLink, append(bytes.Clone(p), 0, 0) // tshark wants eight bytes
		}
		n := uint16(headerLen + len(p))
		b = append(b, make([]byte, 8)...)
		b = le.AppendUint32(le.AppendUint32(b, uint32(n)), uint32(n))
		b = append(append(b, make([]byte, 8)...), kind, 0)
		b = be.AppendUint16(be.AppendUint16(be.AppendUint16(b, n), 0), uint16(len(p)))
		b = append(b, p...)
	}
	return b
}

// dissect returns what tshark finds in a capture file: a line for each packet, with the
// fields and whether the packet is malformed.
func dissect(t *testing.T, capture []byte, fields ...string) []string {
	t.Helper()
	testenv.Programs(t, "tshark")
	file := filepath.Join(t.TempDir(), "native.pcap")
	if err := os.WriteFile(file, capture, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "--disable-protocol", "rpcordma" /* it claims any payload */, "-T", "fields", "-E", "separator=,"}
	for _, f := range append(fields, "_ws.malformed") {
		args = append(args, "-e", f)
	}
	c := exec.Command("tshark", args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	return strings.Fields(string(out))
}

func TestNativePacketsAsTsharkReadsThem(t *testing.T) {
	lrh := LRH{VL: 3, SL: 5, Next: LocalBTH, DLID: 0x12, SLID: 0x34}
	global := lrh
	global.Next = GlobalGRH
	grh := &GRH{TrafficClass: 7, FlowLabel: 0x12345, HopLimit: 9, SGID: [16]byte{0xfe, 0x80, 15: 1}, DGID: [16]byte{0xfe, 0x80, 15: 2}}
	send := &Packet{BTH: BTH{Opcode: RCSendOnly, PKey: 0xffff, DestQPN: 0x77, Pad: 3}, Payload: []byte("hello")}
	datagram := &Packet{BTH: BTH{Opcode: UDSendOnly, PKey: 0xffff, DestQPN: 0x78}, DETH: DETH{QKey: 1, SrcQPN: 2}, Payload: make([]byte, 8)}
	got := dissect(t, pcap(samplePacket(t), AppendNative(nil, lrh, nil, send), AppendNative(nil, global, grh, datagram)),
		"infiniband.lrh.vl", "infiniband.lrh.sl", "infiniband.lrh.lnh", "infiniband.lrh.dlid", "infiniband.lrh.pktlen", "infiniband.lrh.slid",
		"infiniband.grh.paylen", "infiniband.grh.hoplmt", "infiniband.bth.opcode", "infiniband.bth.destqp")
	want := []string{
		"0x07,1,0x02,14172,14,6098,,,10,0x87b1b3,",
		"0x03,5,0x02,18,8,52,,,4,0x000077,",
		"0x03,5,0x03,18,20,52,32,9,100,0x000078,",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// tshark names the opcodes of XRC, and shows nothing of what follows their BTH.
func TestOpcodesAsTsharkNamesThem(t *testing.T) {
	testenv.Programs(t, "tshark")
	out, err := exec.Command("tshark", "-G", "values").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	long := map[Transport]string{RC: "Reliable Connection (RC)", UC: "Unreliable Connection (UC)", UD: "Unreliable Datagram (UD)", XRC: "Extended Reliable Connection (XRC)"}
	seen := map[Transport]int{}
	for line := range strings.Lines(string(out)) {
		w := strings.Split(strings.TrimSpace(line), "\t")
		if len(w) != 4 || w[1] != "infiniband.bth.opcode" {
			continue
		}
		n, err := strconv.ParseUint(w[2], 0, 8)
		if err != nil {
			t.Fatalf("tshark's opcode %q: %v", w[2], err)
		}
		o := Opcode(n)
		prefix, ok := long[o.Transport()]
		if !ok || strings.HasSuffix(w[3], "Reserved") {
			continue
		}
		seen[o.Transport()]++
		_, name, _ := strings.Cut(o.String(), " ")
		if found := prefix + " - " + name; !strings.EqualFold(found, w[3]) {
			t.Errorf("opcode %#02x: found %q, expected %q as tshark has it", n, found, w[3])
		}
	}
	if seen[XRC] != 23 {
		t.Errorf("tshark names %d opcodes of XRC, expected 23", seen[XRC])
	}
}

func TestLinkPacketsAsTsharkReadsThem(t *testing.T) {
	var packets [][]byte
	var want []string
	for _, f := range []FlowControl{
		{Op: FlowNormal, VL: 0, Sent: 0, Limit: 512}, {Op: FlowInitialize, VL: 7, Sent: 0xabc, Limit: 0x123}, {VL: 14, Sent: 9, Limit: 4095},
	} {
		b := make([]byte, FlowControlLen)
		f.Put(b)
		packets = append(packets, b)
		want = append(want, fmt.Sprintf("%d,%d,%d,%d,0x%04x,", f.Op, f.Sent, f.VL, f.Limit, binary.BigEndian.Uint16(b[4:])))
	}
	got := dissect(t, pcap(packets...), "infiniband_link.op", "infiniband_link.fctbs", "infiniband_link.vl", "infiniband_link.fccl", "infiniband_link.lpcrc")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
