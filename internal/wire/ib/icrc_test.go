package ib

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

var (
	v4src = netip.MustParseAddrPort("10.0.0.1:50000")
	v4dst = netip.MustParseAddrPort("10.0.0.2:4791")
	v6src = netip.MustParseAddrPort("[fd00::1]:50000")
	v6dst = netip.MustParseAddrPort("[fd00::2]:4791")
)

// signed builds a packet of n random words behind the BTH with its ICRC.
func signed(r *rand.Rand, h *Prefix, id uint16, words int) []byte {
	p := make([]byte, BTHLen+ICRCLen+4*words)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	PutICRC(p[len(p)-ICRCLen:], h.Sum(id, p))
	return p
}

func TestCheckerSolvesIdentification(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := NewPseudoHeader(v4src, v4dst)
	var c Checker
	for range 2000 {
		id := uint16(r.Uint32())
		p := signed(r, &h, id, r.IntN(300))
		if got, ok := c.Check(&h, 0, p); !ok || got != id {
			t.Fatalf("length %d: identification %#x, found %#x %v", len(p), id, got, ok)
		}
	}
}

// With the identification hidden, sixteen bits detect: of 20,000 corrupted
// packets about 0.3 pass, and a Checker that solved for more would pass many.
func TestCheckerCorruptedPacketIsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	h := NewPseudoHeader(v4src, v4dst)
	var c Checker
	passed := 0
	for range 20000 {
		p := signed(r, &h, uint16(r.Uint32()), 16)
		for range 1 + r.IntN(8) {
			if i := r.IntN(len(p)); i != 4 { // resv8a is not covered
				p[i] ^= byte(1 + r.IntN(255))
			}
		}
		if _, ok := c.Check(&h, 0, p); ok {
			passed++
		}
	}
	// Untouched ones: all changes hit byte 4, at most 1 in 80 of the draws of one.
	if passed > 100 {
		t.Errorf("%d of 20000 corrupted packets passed", passed)
	}
}

func TestCheckerSingleByteErrorsAreAllRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var c Checker
	for _, h := range []Prefix{NewPseudoHeader(v4src, v4dst), NewPseudoHeader(v6src, v6dst)} {
		p := signed(r, &h, 77, 64)
		for i := range p {
			x := bytes.Clone(p)
			x[i] ^= 0x10
			if _, ok := c.Check(&h, 77, x); ok != (i == 4) {
				t.Errorf("identified %v, byte %d changed: accepted %v", h.Identified(), i, ok)
			}
		}
	}
}

func TestCheckerIPv6HasNothingToSolve(t *testing.T) {
	h := NewPseudoHeader(v6src, v6dst)
	p := signed(rand.New(rand.NewPCG(7, 8)), &h, 0, 8)
	var c Checker
	if _, ok := c.Check(&h, 1234, p); !ok {
		t.Error("good packet refused")
	}
	p[20] ^= 1
	if _, ok := c.Check(&h, 0, p); ok {
		t.Error("corrupted packet accepted")
	}
}

func TestCheckerShortPacketIsRefused(t *testing.T) {
	h := NewPseudoHeader(v4src, v4dst)
	var c Checker
	for n := range BTHLen + ICRCLen {
		if _, ok := c.Check(&h, 0, make([]byte, n)); ok {
			t.Errorf("%d bytes have an ICRC", n)
		}
	}
}

func TestPseudoHeaderMappedAddressIsIPv4(t *testing.T) {
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.0.0.1"), 50000)
	a, b := NewPseudoHeader(v4src, v4dst), NewPseudoHeader(mapped, v4dst)
	if a != b {
		t.Error("an IPv4-mapped address gives another pseudo-header")
	}
}

// Join and Extend over any split give what Sum gives over the whole, and
// SumCaptured what both give.
func TestICRCInPiecesEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, dst := v4src, v4dst
		if rapid.Bool().Draw(t, "IPv6") {
			src, dst = v6src, v6dst
		}
		h := NewPseudoHeader(src, dst)
		id := rapid.Uint16().Draw(t, "id")
		b := rapid.SliceOfN(rapid.Byte(), BTHLen+ICRCLen, 200).Draw(t, "packet")
		whole := h.Sum(id, b)
		body := b[:len(b)-ICRCLen]
		cut := rapid.IntRange(BTHLen, len(body)).Draw(t, "cut")
		again := rapid.IntRange(cut, len(body)).Draw(t, "second cut")
		crc := Extend(Extend(h.Join(len(b), id, body[:BTHLen], body[BTHLen:cut]), body[cut:again]), body[again:])
		if crc != whole {
			t.Fatalf("in pieces %#08x, whole %#08x", crc, whole)
		}
		var headers [GRHLen + udpLen]byte
		tos, ttl := rapid.Byte().Draw(t, "tos"), rapid.Byte().Draw(t, "ttl")
		n := PutIP(headers[:], src.Addr(), dst.Addr(), tos, ttl, id, udpLen+len(b))
		PutUDP(headers[n:], src.Port(), dst.Port(), len(b), rapid.Uint16().Draw(t, "checksum"))
		if sum, ok := SumCaptured(headers[:n+udpLen], b); !ok || sum != whole {
			t.Fatalf("captured %#08x %v, whole %#08x", sum, ok, whole)
		}
	})
}

func TestSumCapturedRefusesOtherHeaders(t *testing.T) {
	packet := make([]byte, BTHLen+ICRCLen)
	for _, c := range []struct {
		name    string
		headers []byte
		packet  []byte
		ok      bool
	}{
		{"none", nil, packet, false},
		{"zero", make([]byte, 28), packet, false},
		{"IPv4", append([]byte{0x45}, make([]byte, 27)...), packet, true},
		{"IPv4 with options", append([]byte{0x46}, make([]byte, 31)...), packet, true},
		{"IPv4 with all options", append([]byte{0x4f}, make([]byte, 67)...), packet, true},
		{"IPv4 that claims options", append([]byte{0x46}, make([]byte, 27)...), packet, false},
		{"IPv6", append([]byte{0x60}, make([]byte, 47)...), packet, true},
		{"IPv6 with an extension", append([]byte{0x60}, make([]byte, 55)...), packet, false},
		{"too long", append([]byte{0x4f}, make([]byte, 100)...), packet, false},
		{"short packet", append([]byte{0x45}, make([]byte, 27)...), packet[1:], false},
	} {
		if _, ok := SumCaptured(c.headers, c.packet); ok != c.ok {
			t.Errorf("%s: %v, expected %v", c.name, ok, c.ok)
		}
	}
}

func FuzzChecker(f *testing.F) {
	f.Add(make([]byte, 16), uint16(0), true)
	f.Fuzz(func(t *testing.T, b []byte, id uint16, v6 bool) {
		h := NewPseudoHeader(v4src, v4dst)
		if v6 {
			h = NewPseudoHeader(v6src, v6dst)
		}
		var c Checker
		found, ok := c.Check(&h, id, b)
		// Whatever it accepts has the right ICRC for what it found.
		if ok && h.Sum(found, b) != ICRC(b) {
			t.Fatalf("accepted with identification %#x, ICRC %#x, expected %#x", found, ICRC(b), h.Sum(found, b))
		}
	})
}
