package adapter

import (
	"net/netip"
	"testing"

	"softrdma/internal/link"
)

// Whatever a peer's identifications count, only the first batches are a surprise.
func TestSourceLearnsWhatIdentificationsCount(t *testing.T) {
	for _, c := range []struct {
		name      string
		firsts    []uint16 // of batches of 3 packets
		surprises int
	}{
		{"unconnected socket", []uint16{0, 0, 0, 0}, 0},
		{"connected socket", []uint16{700, 701, 702, 703}, 1},
		{"connected socket, wrap", []uint16{0xfffe, 0xffff, 0, 1, 2}, 2},
		{"packets", []uint16{700, 703, 706, 709}, 2},
		{"socket that was disconnected", []uint16{700, 701, 0, 0, 0}, 2},
		{"begins anew", []uint16{700, 701, 9, 10, 11}, 2},
	} {
		var s source
		n := 0
		for _, id := range c.firsts {
			if s.expected() != id {
				n++
			}
			s.begin(id)
			s.next = id + 3
		}
		if n != c.surprises {
			t.Errorf("%s: %d of %d identifications were not expected, want %d", c.name, n, len(c.firsts), c.surprises)
		}
	}
}

func TestSourcesKeepApartWhatSharesASlot(t *testing.T) {
	var all sources
	seen := map[*source]bool{}
	for i := range 1000 {
		rx := &link.Rx{Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 49152), Dst: netip.MustParseAddrPort("10.9.9.9:4791")}
		s := all.find(rx)
		if s.src != rx.Src || s.dst != rx.Dst || s.first != 0 {
			t.Fatalf("source %+v for a batch from %v", s, rx.Src)
		}
		s.begin(9)
		if all.find(rx) != s || s.first != 9 {
			t.Fatal("a source is forgotten with nothing in between")
		}
		seen[s] = true
	}
	if len(seen) < 64 || len(seen) > len(all) {
		t.Errorf("%d slots in use for 1000 sources", len(seen))
	}
}
