package host

import (
	"net"
	"net/netip"
	"testing"
)

func TestGUIDDependsOnTheAddress(t *testing.T) {
	eth := Interface{Name: "eth0", MAC: net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}}
	other := Interface{Name: "eth1", MAC: net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x57}}
	lo := Interface{Name: "lo", Loopback: true}
	seen := map[uint64]string{}
	for _, c := range []struct {
		i Interface
		a string
	}{
		{eth, "192.0.2.1"}, {eth, "192.0.2.2"}, {eth, "2001:db8::1"}, {eth, "fe80::1%eth0"}, {other, "192.0.2.1"}, {lo, "127.0.0.1"}, {lo, "127.0.0.2"}, {lo, "::1"},
	} {
		a := netip.MustParseAddr(c.a)
		g := GUID(c.i, a)
		if g != GUID(c.i, a) || g != GUID(c.i, a.WithZone("")) && a.Zone() != "" {
			t.Errorf("%s on %s: another GUID at the next call", c.a, c.i.Name)
		}
		if was := seen[g]; was != "" {
			t.Errorf("%s on %s has the GUID %#016x of %s", c.a, c.i.Name, g, was)
		}
		seen[g] = c.a + " on " + c.i.Name
		if first := byte(g >> 56); first&1 != 0 || first&2 == 0 {
			t.Errorf("%s: GUID %#016x is no locally administered one of a device", c.a, g)
		}
		if s := SystemGUID(c.i, a); c.i.Loopback != (s == g) {
			t.Errorf("%s on %s: system GUID %#016x", c.a, c.i.Name, s)
		}
	}
	if a, b := SystemGUID(eth, netip.MustParseAddr("192.0.2.1")), SystemGUID(eth, netip.MustParseAddr("192.0.2.2")); a != b || a != 0x505400fffe123456 {
		t.Errorf("system GUIDs of one interface: %#016x and %#016x, expected EUI-64 of its MAC", a, b)
	}
	if got := GUID(eth, netip.MustParseAddr("192.0.2.1")); got != 0x52540039283f8950 {
		t.Errorf("GUID %#016x, which must never change", got)
	}
}
