package ethernet

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/testenv"
)

// sample is what a port with a lossless priority 3 says.
func sample() *LLDP {
	ets := ETS{Willing: true, Class: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, Percent: [8]uint8{50, 0, 0, 50},
		Algorithm: [8]Selection{0: Enhanced, 3: Enhanced}}
	recommendation := ETS{Class: [8]uint8{7: 1}, Percent: [8]uint8{70, 30}, Algorithm: [8]Selection{Enhanced, Enhanced}}
	return &LLDP{Src: MAC{2, 0, 0, 0, 0, 1}, Chassis: ID{ChassisMAC, "\x02\x00\x00\x00\x00\x01"}, Port: ID{PortName, "swp1"}, TTL: 120, SystemName: "leaf-0",
		ETS: &ets, Recommendation: &recommendation, PFC: &PFC{Willing: true, Limit: 8, Enable: 1 << 3},
		Applications: []Application{{3, ByUDP, 4791}, {3, ByEtherType, TypeRoCE}}}
}

// goldenLLDP is laid out by hand from the figures of 802.1AB clause 8 and 802.1Q annex D.
const goldenLLDP = "0180c200000e 020000000001 88cc" +
	"0207 04 020000000001" + "0405 05 73777031" + "0602 0078" + "0a06 6c6561662d30" +
	"fe19 0080c2 09 80 01234567 3200003200000000 0200000200000000" +
	"fe19 0080c2 0a 00 00000001 461e000000000000 0202000000000000" +
	"fe06 0080c2 0b 88 08" +
	"fe0b 0080c2 0c 00 63 12b7 61 8915" +
	"0000"

func TestLLDPGolden(t *testing.T) {
	want := unhex(t, goldenLLDP)
	if b := sample().Append(nil); !bytes.Equal(b, want) {
		t.Errorf("%x, expected %x", b, want)
	}
	var back LLDP
	if d := back.Parse(want); d.Reason != reason.None || !reflect.DeepEqual(&back, sample()) {
		t.Errorf("%v: %+v", d, back)
	}
}

func TestLLDPTruncatedIsRefusedByName(t *testing.T) {
	whole := unhex(t, goldenLLDP)
	for n := range whole {
		if d := new(LLDP).Parse(whole[:n]); d.Reason != reason.EthernetLLDP {
			t.Errorf("%d of %d bytes: %v", n, len(whole), d)
		}
	}
}

func TestLLDPOrderOfElements(t *testing.T) {
	front := "0180c200000e 020000000001 88cc"
	chassis, port, ttl := "0207 04 020000000001", "0405 05 73777031", "0602 0078"
	for _, c := range []struct {
		name, hex string
		want      reason.Reason
	}{
		{"in order", chassis + port + ttl + "0000", reason.None},
		{"unknown elements are skipped", chassis + port + ttl + "2001ff" + "fe04 0080c2 ee" + "fe03 001122" + "0000", reason.None},
		{"malformed elements of DCBX are skipped", chassis + port + ttl + "fe05 0080c2 0b 88" + "fe06 0080c2 0c 00 63" + "fe05 0080c2 09 00" + "0000", reason.None},
		{"ports before chassis", port + chassis + ttl + "0000", reason.EthernetLLDP},
		{"no time", chassis + port + "0000", reason.EthernetLLDP},
		{"chassis twice", chassis + port + ttl + chassis + "0000", reason.EthernetLLDP},
		{"empty port", chassis + "0401 05" + ttl + "0000", reason.EthernetLLDP},
		{"no end", chassis + port + ttl, reason.EthernetLLDP},
	} {
		var l LLDP
		if d := l.Parse(unhex(t, front+c.hex)); d.Reason != c.want {
			t.Errorf("%s: %v, expected %v", c.name, d, c.want)
		}
		if l.PFC != nil || l.ETS != nil || l.Applications != nil {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

func FuzzLLDP(f *testing.F) {
	f.Add(unhex(f, goldenLLDP))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again LLDP
		if l.Parse(b).Reason != reason.None {
			return
		}
		if len(l.Applications) == 0 {
			l.Applications = nil
		}
		if d := again.Parse(l.Append(nil)); d.Reason != reason.None || !reflect.DeepEqual(again, l) {
			t.Errorf("%v: %+v came back as %+v", d, l, again)
		}
	})
}

// TestFramesAsTsharkReadsThem compares what this package writes with what tshark finds in it.
func TestFramesAsTsharkReadsThem(t *testing.T) {
	testenv.Programs(t, "tshark")
	frames := [][]byte{sample().Append(nil)}
	for _, g := range goldenControls {
		frames = append(frames, g.c.Append(nil))
	}
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4) // pcap, link type 1
	file = append(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0)
	for _, b := range frames {
		file = append(file, make([]byte, 8)...)
		file = binary.LittleEndian.AppendUint32(file, uint32(len(b)))
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(b))), b...)
	}
	path := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tshark", "-r", path, "-V").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{
		"Chassis Id: 02:00:00:00:00:01", "Port Id: swp1", "System Name: leaf-0", "Seconds: 120",
		"IEEE - ETS Configuration", "Willing: Yes", "PGID for Prio 6: 6", "Bandwidth for PGID 3: 50", "TSA for Traffic Class 3: Enhanced Transmission Selection (2)",
		"IEEE - ETS Recommendation", "PGID for Prio 7: 1", "Bandwidth for PGID 0: 70", "Bandwidth for PGID 1: 30",
		"Max PFC Enabled Traffic Classes: 8", "PFC for Priority 3: Enabled", "PFC for Priority 4: Disabled",
		"Application Priority: 3", "Port over UDP/DCCP (3) Application Protocol Id: 0x12b7", "Application Protocol Id: 0x8915",
		"Opcode: Pause (0x0001)", "Class Based Flow Control [CBFC] Pause (0x0101)", "4660",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("tshark finds no %q", want)
		}
	}
	if strings.Contains(text, "Malformed") {
		t.Error("tshark finds a malformed frame")
	}
	if t.Failed() {
		t.Log(string(out))
	}
}
