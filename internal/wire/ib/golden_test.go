package ib

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// A golden is a packet of another implementation, from its IP header on.
type golden struct {
	name   string
	opcode Opcode
	ip     []byte
}

// goldens reads testdata files of lines "name opcode bytes...".
func goldens(t *testing.T, path string) (all []golden) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 3 || strings.HasPrefix(w[0], "#") {
			continue
		}
		op, err := hex.DecodeString(w[1])
		if err != nil || len(op) != 1 {
			t.Fatalf("%s: opcode of %s: %q", path, w[0], w[1])
		}
		b, err := hex.DecodeString(strings.Join(w[2:], ""))
		if err != nil || len(b) < ipv4Len {
			t.Fatalf("%s: bytes of %s: %v", path, w[0], err)
		}
		all = append(all, golden{w[0], Opcode(op[0]), b})
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no packets", path)
	}
	return all
}

// split takes the IP and UDP headers off.
func (g *golden) split() (headers, packet []byte, src, dst netip.AddrPort, id uint16) {
	n := ipv4Len
	s, d := g.ip[12:16], g.ip[16:20]
	if g.ip[0]>>4 == 6 {
		n, s, d = ipv6Len, g.ip[8:24], g.ip[24:40]
	} else {
		id = binary.BigEndian.Uint16(g.ip[4:])
	}
	sa, _ := netip.AddrFromSlice(s)
	da, _ := netip.AddrFromSlice(d)
	src = netip.AddrPortFrom(sa, binary.BigEndian.Uint16(g.ip[n:]))
	dst = netip.AddrPortFrom(da, binary.BigEndian.Uint16(g.ip[n+2:]))
	return g.ip[:n+udpLen], g.ip[n+udpLen:], src, dst, id
}

// goldenFiles tell in their heads where the packets come from.
var goldenFiles = []string{"testdata/published.txt", "testdata/rxe.txt"}

// Every opcode of the table was seen from another implementation, except softrdma's own,
// FLUSH and ATOMIC WRITE, which Linux has since 6.2, and those of XRC, which only adapters
// have (see TestOpcodesAsTsharkNamesThem).
func TestGoldenPacketsCoverTheOpcodes(t *testing.T) {
	seen := map[Opcode]bool{}
	for _, file := range goldenFiles {
		for _, g := range goldens(t, file) {
			seen[g.opcode] = true
		}
	}
	for _, o := range opcodes() {
		if !seen[o] && o < 0xc0 && o != RCFlush && o != RCAtomicWrite && o.Transport() != XRC {
			t.Errorf("no golden packet of %v", o)
		}
	}
}

func TestGoldenPackets(t *testing.T) {
	for _, file := range goldenFiles {
		for _, g := range goldens(t, file) {
			t.Run(g.name, func(t *testing.T) { g.check(t) })
		}
	}
}

// check parses a golden packet, builds it again byte for byte, computes its
// ICRC in every way there is, and solves for its hidden identification.
func (g *golden) check(t *testing.T) {
	headers, b, src, dst, id := g.split()
	var p Packet
	if f := p.Parse(b); f != OK {
		t.Fatalf("refused: %v", f)
	}
	if p.Opcode != g.opcode {
		t.Errorf("opcode %v, expected %v", p.Opcode, g.opcode)
	}
	built := p.Append(nil)
	h := NewPseudoHeader(src, dst)
	built = append(built, 0, 0, 0, 0)
	PutICRC(built[len(built)-ICRCLen:], h.Sum(id, built))
	if !bytes.Equal(built, b) {
		t.Errorf("built again differs:\nexpected % x\nfound    % x", b, built)
	}
	if sum, ok := SumCaptured(headers, b); !ok || sum != ICRC(b) {
		t.Errorf("ICRC under the captured headers: expected %#08x, found %#08x", ICRC(b), sum)
	}
	var c Checker
	if found, ok := c.Check(&h, ^id, b); !ok || h.Identified() && found != id {
		t.Errorf("identification solved as %#x %v, expected %#x", found, ok, id)
	}
	var ip [ipv6Len]byte
	tos, ttl := g.ip[1], g.ip[8]
	if !h.Identified() {
		tos, ttl = g.ip[0]<<4|g.ip[1]>>4, g.ip[7]
	}
	n := PutIP(ip[:], src.Addr(), dst.Addr(), tos, ttl, id, udpLen+len(b))
	if h.Identified() && !bytes.Equal(ip[:n], headers[:n]) {
		t.Errorf("IP header:\nexpected % x\nfound    % x", headers[:n], ip[:n])
	}
}

// A golden test must fail for a packet that is not golden.
func TestGoldenPacketWithAnyBitChangedFailsICRC(t *testing.T) {
	for _, g := range goldens(t, "testdata/published.txt") {
		headers, b, src, dst, id := g.split()
		h := NewPseudoHeader(src, dst)
		for bit := range 8 * len(b) {
			x := bytes.Clone(b)
			x[bit/8] ^= 0x80 >> (bit % 8)
			masked := bit/8 == 4 // resv8a, where FECN and BECN lie, is not covered
			if got := h.Sum(id, x) == ICRC(x); got != masked {
				t.Errorf("%s with bit %d changed: ICRC good %v", g.name, bit, got)
			}
			if sum, _ := SumCaptured(headers, x); (sum == ICRC(x)) != masked {
				t.Errorf("%s with bit %d changed: captured ICRC %v", g.name, bit, !masked)
			}
		}
	}
}
