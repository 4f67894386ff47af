package verbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"softrdma/verbs"
)

// tshark returns the dissection of a capture. It skips the test if tshark is not installed,
// and fails in CI.
func tshark(t *testing.T, file string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tshark is missing, and must be there in CI")
		}
		t.Skip("SKIPPED: tshark is not installed")
	}
	var stderr bytes.Buffer
	c := exec.Command(path, append([]string{"-r", file, "--disable-protocol", "rpcordma"}, args...)...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	return string(out)
}

// slowICRC computes the ICRC of a RoCE v2 packet over IPv4, one bit at a time, from the text
// of IBTA 7.8.1 and annex A17.3.3.
func slowICRC(packet []byte) uint32 {
	covered := append(bytes.Repeat([]byte{0xff}, 8), packet[:len(packet)-4]...) // first the place of the LRH
	for _, at := range []int{1, 8, 10, 11, 26, 27, 32} {                        // TOS, TTL, both checksums, resv8a
		covered[8+at] = 0xff
	}
	register := ^uint32(0)
	for _, b := range covered {
		register ^= uint32(b)
		for range 8 {
			register = register>>1 ^ 0xedb88320&-(register&1)
		}
	}
	return ^register
}

// An ibPacket is a packet of a capture from its BTH on, without its ICRC.
type ibPacket []byte

func (p ibPacket) opcode() byte  { return p[0] }
func (p ibPacket) qpn() uint32   { return binary.BigEndian.Uint32(p[4:]) & 0xffffff }
func (p ibPacket) psn() uint32   { return binary.BigEndian.Uint32(p[8:]) & 0xffffff }
func (p ibPacket) title() string { return fmt.Sprintf("%d|0x%06x|%d", p.opcode(), p.qpn(), p.psn()) }

// packetsIn reads the packets of a capture with tshark's help, and checks their ICRC and
// dissection.
func packetsIn(t *testing.T, file string) (list []ibPacket) {
	t.Helper()
	plain := file + ".pcap"
	tshark(t, file, "-F", "pcap", "-w", plain)
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	for b = b[24:]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b[8:])
		p := b[16 : 16+n]
		b = b[16+n:]
		if p[0] != 0x45 || p[9] != 17 || binary.BigEndian.Uint16(p[22:]) != verbs.Port {
			t.Fatalf("packet % x is not one of RoCE v2 over IPv4", p[:28])
		}
		if got, want := binary.LittleEndian.Uint32(p[len(p)-4:]), slowICRC(p); got != want {
			t.Errorf("packet %d: ICRC %#x, expected %#x", len(list), got, want)
		}
		list = append(list, p[28:len(p)-4])
	}
	out := tshark(t, file, "-T", "fields", "-E", "separator=|", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "_ws.malformed")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(list) {
		t.Fatalf("tshark dissects %d packets, expected %d", len(lines), len(list))
	}
	for i, p := range list {
		if lines[i] != p.title()+"|" {
			t.Errorf("packet %d: tshark prints %q, expected %q", i, lines[i], p.title()+"|")
		}
	}
	return list
}

// readRequest is the opcode of RC RDMA READ Request (IBTA 9.2, table 38).
const readRequest = 0x0c

// towards selects the packets to a queue pair, without retransmissions. There is one READ:
// further requests ask for parts of its answer again, if a process did not run for a while.
func towards(list []ibPacket, qpn uint32) (selected []ibPacket) {
	seen := make(map[uint32]bool)
	asked := false
	for _, p := range list {
		if p.qpn() != qpn || seen[p.psn()] || asked && p.opcode() == readRequest {
			continue
		}
		seen[p.psn()] = true
		asked = asked || p.opcode() == readRequest
		selected = append(selected, p)
	}
	return selected
}

// payloads joins the data after the headers of packets: n bytes of headers in the first one.
func payloads(list []ibPacket, first, others int) (b []byte) {
	for i, p := range list {
		n := others
		if i == 0 {
			n = first
		}
		b = append(b, p[12+n:]...)
	}
	return b
}

// A capture of the memory path has all packets in order, with the bytes that went through
// memory and the ICRC that they would have on a network. Both ends capture the same packets.
func TestCaptureOfMemoryPathIsThatOfANetwork(t *testing.T) {
	hostDirectory(t)
	const size, n = 2 * peerSlots * peerSlot, 64 << 10
	const packets = n / 4096
	files := t.TempDir()
	theirs := filepath.Join(files, "theirs.pcapng")
	peer := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: size, QPs: 1, Type: verbs.RC, Shared: true, Mode: verbs.SameHostRequire, Capture: theirs})
	a := hostSide(t, openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire}), size, true)
	peer.join(t, verbs.ConnectConfig{Timeout: 19, PathMTU: 4096}, a)
	ours := filepath.Join(files, "ours.pcapng")
	f, err := os.Create(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	capturing, err := a.dev.Capture(f)
	if err != nil {
		t.Fatal(err)
	}
	peer.tell(t, "capture", "captures")
	fill(a.buf[:n], 1)
	written := bytes.Clone(a.buf[:n])
	a.post(t, peer.to(a, verbs.OpWrite, 0, n))
	a.ok(t, verbs.WCWrite)
	clear(a.buf[:n])
	a.post(t, peer.to(a, verbs.OpRead, 0, n))
	a.ok(t, verbs.WCRead)
	add := peer.to(a, verbs.OpFetchAdd, n, 8)
	add.Add = 0x0102030405060708
	a.post(t, add)
	a.ok(t, verbs.WCFetchAdd)
	putMessage(a.buf[:peerSlot], 9)
	sent := bytes.Clone(a.buf[:peerSlot])
	a.post(t, peer.to(a, verbs.OpSend, 0, peerSlot))
	a.ok(t, verbs.WCSend)
	if p := a.qp.Path(); p != verbs.PathSameHost {
		t.Errorf("path %q", p)
	}
	peer.end(t)
	if err := capturing.Close(); err != nil {
		t.Fatal(err)
	}

	all := packetsIn(t, ours)
	requests, answers := towards(all, peer.info.Ends[0].QPN), towards(all, a.qp.Number())
	middles := func(first, middle, last byte) []byte {
		return slices.Concat([]byte{first}, bytes.Repeat([]byte{middle}, packets-2), []byte{last})
	}
	want := slices.Concat(middles(0x06, 0x07, 0x08), []byte{readRequest, 0x14}, middles(0x00, 0x01, 0x02)) // IBTA 9.2, table 38
	if len(requests) != len(want) {
		t.Fatalf("%d requests, expected %d", len(requests), len(want))
	}
	next := requests[0].psn()
	for i, p := range requests {
		if p.opcode() != want[i] || p.psn() != next&0xffffff {
			t.Errorf("request %d has opcode %#x and PSN %d, expected %#x and %d", i, p.opcode(), p.psn(), want[i], next&0xffffff)
		}
		if next++; p.opcode() == readRequest {
			next += packets - 1 // of the response
		}
	}
	write, atomic, send := requests[:packets], requests[packets+1], requests[packets+2:]
	if !bytes.Equal(payloads(write, 16, 0), written) || !bytes.Equal(payloads(send, 0, 0), sent) {
		t.Error("the requests carry other bytes than were posted")
	}
	if got := binary.BigEndian.Uint64(atomic[24:]); got != add.Add {
		t.Errorf("the FETCH_ADD adds %#x, expected %#x", got, add.Add)
	}
	read := slices.DeleteFunc(slices.Clone(answers), func(p ibPacket) bool { return p.opcode() < 0x0d || p.opcode() > 0x10 })
	if len(read) != packets || !bytes.Equal(answered(read), written) {
		t.Errorf("%d packets answer the READ, expected %d with the bytes that the WRITE left", len(read), packets)
	}
	same := func(x, y ibPacket) bool { return bytes.Equal(x, y) }
	other := packetsIn(t, theirs)
	if !slices.EqualFunc(requests, towards(other, peer.info.Ends[0].QPN), same) || !slices.EqualFunc(answers, towards(other, a.qp.Number()), same) {
		t.Error("the peer has captured other packets, or in another order")
	}
}

// answered returns the payload of READ responses. First, Last and Only have an AETH.
func answered(list []ibPacket) (b []byte) {
	for _, p := range list {
		if p.opcode() == 0x0e { // Middle
			b = append(b, p[12:]...)
		} else {
			b = append(b, p[16:]...)
		}
	}
	return b
}
