package host

import (
	"net"
	"net/netip"
	"testing"
)

func TestGUIDIsEUI64OfMAC(t *testing.T) {
	i := Interface{MAC: net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}}
	// RFC 4291 appendix A, as Linux's Soft RoCE: 5054:00ff:fe12:3456.
	if g := GUID(i, netip.MustParseAddr("192.0.2.5")); g != 0x505400fffe123456 {
		t.Errorf("GUID %#x, want 0x505400fffe123456", g)
	}
}

func TestGUIDWithoutMACDependsOnAddress(t *testing.T) {
	lo := Interface{Loopback: true, MAC: make(net.HardwareAddr, 6)}
	seen := map[uint64]string{}
	for _, s := range []string{"127.0.0.1", "127.0.0.2", "127.1.0.1", "::1", "2001:db8::1"} {
		g := GUID(lo, netip.MustParseAddr(s))
		if seen[g] != "" || g == 0 || g>>56&1 != 0 {
			t.Errorf("GUID of %s is %#x: expected another than that of %q and no group", s, g, seen[g])
		}
		if again := GUID(Interface{}, netip.MustParseAddr(s)); again != g {
			t.Errorf("GUID of %s is %#x, then %#x", s, g, again)
		}
		seen[g] = s
	}
}

func TestGIDTableLinkLocalFirst(t *testing.T) {
	table := GIDTable(sample()[3])
	want := []string{"fe80::2", "2001:db8:1::5", "::ffff:10.0.0.5"}
	if len(table) != len(want) {
		t.Fatalf("%d entries, want %d", len(table), len(want))
	}
	for k, e := range table {
		if got := netip.AddrFrom16(e.GID).String(); got != want[k] || e.Type != "RoCE v2" || e.Addr.As16() != e.GID {
			t.Errorf("entry %d: %s %s %v, want %s", k, got, e.Type, e.Addr, want[k])
		}
	}
}

func TestMTUForInterface(t *testing.T) {
	for _, c := range []struct{ iface, want int }{
		{65536, 4096}, {9000, 4096}, {4200, 4096}, {4176, 4096}, {4175, 2048}, {2200, 2048},
		{1500, 1024}, {1104, 1024}, {1103, 512}, {576, 256}, {336, 256}, {335, 0}, {0, 0},
	} {
		if got := MTUFor(c.iface); got != c.want {
			t.Errorf("interface of %d bytes: path MTU %d, want %d", c.iface, got, c.want)
		}
	}
}
