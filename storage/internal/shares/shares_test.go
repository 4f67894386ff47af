package shares

import (
	"net/netip"
	"testing"
)

func TestHostsHaveTheirShares(t *testing.T) {
	for limit, share := range map[int]int{1: 1, 3: 1, 8: 2, 9: 2, 64: 16} {
		s := New(limit)
		var all []netip.Addr
		host := netip.MustParseAddr("192.0.2.1")
		for ; len(all) < limit; host = host.Next() {
			for range min(share, limit-len(all)) {
				if !s.Enter(host) {
					t.Fatalf("%d connections, %d of one host: refused after %d", limit, share, len(all))
				}
				all = append(all, host)
			}
			if s.Enter(host) {
				t.Fatalf("%d connections: one host has more than %d", limit, share)
			}
		}
		if s.Enter(host) {
			t.Errorf("expected at most %d connections, found one more", limit)
		}
		for _, h := range all {
			s.Leave(h)
		}
		if !s.Enter(all[0]) || s.all != 1 || len(s.hosts) != 1 {
			t.Errorf("%d connections: after all have ended, %d are left", limit, s.all-1)
		}
	}
}
