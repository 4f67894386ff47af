package rocev2

import (
	"net/netip"
	"testing"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/wire/ib"
)

func TestSourcesKeepApartWhatSharesASlot(t *testing.T) {
	var all sources
	var checker ib.Checker
	seen := map[*frame.Source]bool{}
	for i := range 1000 {
		rx := &link.Rx{Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 49152), Dst: netip.MustParseAddrPort("10.9.9.9:4791")}
		s := all.find(rx, &checker)
		if s.From != rx.Src || s.To != rx.Dst || s.Front != 0 {
			t.Fatalf("source %+v for a batch from %v", s, rx.Src)
		}
		s.Front = 9
		if all.find(rx, &checker) != s || s.Front != 9 {
			t.Fatal("a source is forgotten with nothing in between")
		}
		s.Front = 0
		seen[s] = true
	}
	if len(seen) < 64 || len(seen) > len(all) {
		t.Errorf("%d slots in use for 1000 sources", len(seen))
	}
}
