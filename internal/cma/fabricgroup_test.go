package cma

import (
	"net/netip"
	"testing"

	"softrdma/internal/cmid"
)

// The MGIDs are those of cma_set_mgid, ip_ib_mc_map and ipv6_ib_mc_map in Linux.
func TestMGIDOfAGroupOnAFabric(t *testing.T) {
	for _, c := range []struct {
		ip    string
		space cmid.PortSpace
		key   uint16
		want  string
	}{
		{"239.1.2.3", cmid.PortSpaceUDP, 0xffff, "ff12:4001:ffff::f01:203"},
		{"224.0.0.1", cmid.PortSpaceUDP, 0x7fff, "ff12:4001:ffff::1"},
		{"239.1.2.3", cmid.PortSpaceUDP, 0x0001, "ff12:4001:8001::f01:203"},
		{"239.1.2.3", cmid.PortSpaceIB, 0xffff, "ff12:401b:ffff::f01:203"},
		{"ff15::77", cmid.PortSpaceUDP, 0xffff, "ff12:6001:ffff::77"},
		{"ff15:1:2:3:4:5:6:7", cmid.PortSpaceIPoIB, 0xffff, "ff12:601b:ffff:3:4:5:6:7"},
		{"ff15:a01b:1:2:3:4:5:6", cmid.PortSpaceUDP, 0xffff, "ff15:a01b:1:2:3:4:5:6"},
		{"ff05:a01b:1:2:3:4:5:6", cmid.PortSpaceUDP, 0xffff, "ff12:6001:ffff:2:3:4:5:6"},
		{"0.0.0.0", cmid.PortSpaceUDP, 0xffff, "::"},
		{"::", cmid.PortSpaceUDP, 0xffff, "::"},
	} {
		if got := fabricMGID(netip.MustParseAddr(c.ip), c.space, c.key); got != netip.MustParseAddr(c.want) {
			t.Errorf("%s of %v in %#x: %v, expected %s", c.ip, c.space, c.key, got, c.want)
		}
	}
	if got, want := Broadcast(0x7fff), netip.MustParseAddr("ff12:401b:ffff::ffff:ffff"); got != want {
		t.Errorf("broadcast group %v, expected %v", got, want)
	}
}

func TestGroupsOfIPAreKnownByTheirSignature(t *testing.T) {
	for _, ip := range []string{"239.1.2.3", "ff15::77"} {
		a := netip.MustParseAddr(ip)
		if !OfIP(fabricMGID(a, cmid.PortSpaceIPoIB, 0xffff)) || OfIP(fabricMGID(a, cmid.PortSpaceUDP, 0xffff)) {
			t.Errorf("%s is not known", ip)
		}
	}
	if OfIP(netip.IPv6Unspecified()) {
		t.Error("the zero GID is a group of IP")
	}
}
