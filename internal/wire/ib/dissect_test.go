package ib

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pcap is a capture file of ERF records, the form in which tshark of any version takes
// InfiniBand packets.
func pcap(packets ...[]byte) []byte {
	const (
		linkTypeERF   = 197
		erfInfiniBand = 21
		headerLen     = 16 // of ERF
	)
	le, be := binary.LittleEndian, binary.BigEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint32(b, 2|4<<16)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(le.AppendUint32(b, 1<<16), linkTypeERF)
	for _, p := range packets {
		n := uint16(headerLen + len(p))
		b = append(b, make([]byte, 8)...)
		b = le.AppendUint32(le.AppendUint32(b, uint32(n)), uint32(n))
		b = append(append(b, make([]byte, 8)...), erfInfiniBand, 0)
		b = be.AppendUint16(be.AppendUint16(be.AppendUint16(b, n), 0), uint16(len(p)))
		b = append(b, p...)
	}
	return b
}

func TestNativePacketsAsTsharkReadsThem(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tshark is missing, and must be there in CI")
		}
		t.Skip("tshark is not installed: dissection of InfiniBand packets is not tested")
	}
	lrh := LRH{VL: 3, SL: 5, Next: LocalBTH, DLID: 0x12, SLID: 0x34}
	global := lrh
	global.Next = GlobalGRH
	grh := &GRH{TrafficClass: 7, FlowLabel: 0x12345, HopLimit: 9, SGID: [16]byte{0xfe, 0x80, 15: 1}, DGID: [16]byte{0xfe, 0x80, 15: 2}}
	send := &Packet{BTH: BTH{Opcode: RCSendOnly, PKey: 0xffff, DestQPN: 0x77, Pad: 3}, Payload: []byte("hello")}
	datagram := &Packet{BTH: BTH{Opcode: UDSendOnly, PKey: 0xffff, DestQPN: 0x78}, DETH: DETH{QKey: 1, SrcQPN: 2}, Payload: make([]byte, 8)}
	file := filepath.Join(t.TempDir(), "native.pcap")
	if err := os.WriteFile(file, pcap(samplePacket(t), AppendNative(nil, lrh, nil, send), AppendNative(nil, global, grh, datagram)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "--disable-protocol", "rpcordma" /* it claims any payload */, "-T", "fields", "-E", "separator=,"}
	for _, f := range []string{"lrh.vl", "lrh.sl", "lrh.lnh", "lrh.dlid", "lrh.pktlen", "lrh.slid", "grh.paylen", "grh.hoplmt", "bth.opcode", "bth.destqp"} {
		args = append(args, "-e", "infiniband."+f)
	}
	c := exec.Command(tshark, append(args, "-e", "_ws.malformed")...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	want := []string{
		"0x07,1,0x02,14172,14,6098,,,10,0x87b1b3,",
		"0x03,5,0x02,18,8,52,,,4,0x000077,",
		"0x03,5,0x03,18,20,52,32,9,100,0x000078,",
	}
	if got := strings.Fields(string(out)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
