package ib

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestCheckerSolvesIdentification(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := NewPseudoHeader(netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4791"))
	var c Checker
	for range 2000 {
		p := make([]byte, BTHLen+ICRCLen+4*r.IntN(300))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		id := uint16(r.Uint32())
		PutICRC(p[len(p)-4:], h.Sum(id, p))
		if got, ok := c.Check(&h, 0, p); !ok || got != id {
			t.Fatalf("length %d: identification %#x, found %#x %v", len(p), id, got, ok)
		}
	}
}
