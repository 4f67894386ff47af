package rocev1

import (
	"net/netip"
	"testing"

	"softrdma/internal/wire/ethernet"
)

func TestLinkLocalGIDAndItsMAC(t *testing.T) {
	mac := ethernet.MAC{0x00, 0x02, 0xc9, 0x01, 0x23, 0x45}
	gid := LinkLocalGID(mac)
	if want := netip.MustParseAddr("fe80::202:c9ff:fe01:2345"); gid != want {
		t.Errorf("GID %v, expected %v", gid, want)
	}
	if got, ok := EUI64MAC(gid); !ok || got != mac {
		t.Errorf("MAC %v %v, expected %v", got, ok, mac)
	}
	if got, ok := EUI64MAC(gid.WithZone("eth0")); !ok || got != mac {
		t.Errorf("with a zone: MAC %v %v, expected %v", got, ok, mac)
	}
}

func TestEUI64MACRefusesOtherGIDs(t *testing.T) {
	for _, s := range []string{"10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fe80:0:0:1:202:c9ff:fe01:2345",
		"2001:db8::202:c9ff:fe01:2345", "ff02::1:fe01:2345"} {
		if mac, ok := EUI64MAC(netip.MustParseAddr(s)); ok {
			t.Errorf("%s has MAC %v", s, mac)
		}
	}
}

func TestMulticastMAC(t *testing.T) {
	for _, c := range []struct {
		gid, mac string // no MAC: not a group
	}{
		{"::ffff:224.1.2.3", "01:00:5e:01:02:03"},
		{"239.255.2.3", "01:00:5e:7f:02:03"}, // RFC 1112: 23 bits
		{"ff02::1:ff01:2345", "33:33:ff:01:23:45"},
		{"ff0e::ffff:e001:203", "33:33:e0:01:02:03"}, // an IPv4 group as Linux's rdma_cm maps it
		{"10.0.0.1", ""},
		{"fe80::1", ""},
	} {
		mac, ok := MulticastMAC(netip.MustParseAddr(c.gid))
		if ok != (c.mac != "") || ok && mac.String() != c.mac {
			t.Errorf("%s: MAC %v %v, expected %q", c.gid, mac, ok, c.mac)
		}
	}
}
