package host

import (
	"errors"
	"net/netip"
	"testing"
)

func TestPathMTUIsBoundedByRouteAndByOwnInterface(t *testing.T) {
	list := func() ([]Interface, error) { return sample(), nil }
	for _, c := range []struct {
		name, dst, src string
		route, want    int
	}{
		{"route of an Ethernet interface", "203.0.113.1", "192.0.2.5", 1500, 1024},
		{"route of a jumbo interface", "203.0.113.1", "192.0.2.5", 9000, 4096},
		{"learnt path below the interface", "203.0.113.1", "192.0.2.5", 800, 512},
		{"path too narrow for RoCE v2", "203.0.113.1", "192.0.2.5", 300, 0},
		{"unknown", "203.0.113.1", "192.0.2.5", 0, 0},
		{"own address on Ethernet", "192.0.2.5", "192.0.2.5", 65536, 1024},
		{"own IPv6 address on Ethernet", "2001:db8::5", "2001:db8::5", 65536, 1024},
		{"own address if the system reports none for the route", "192.0.2.5", "192.0.2.5", 0, 1024},
		{"loopback", "127.0.0.1", "127.0.0.1", 65536, 4096},
		{"other loopback address", "127.0.0.2", "127.0.0.1", 65536, 4096},
		{"IPv6 loopback", "::1", "::1", 65536, 4096},
	} {
		if got := pathMTU(netip.MustParseAddr(c.dst), netip.MustParseAddr(c.src), c.route, 0, list); got != c.want {
			t.Errorf("%s: found %d, expected %d", c.name, got, c.want)
		}
	}
	fails := func() ([]Interface, error) { return nil, errors.New("no interfaces") }
	if got := pathMTU(netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.5"), 1500, 0, fails); got != 1024 {
		t.Errorf("without the list of interfaces: found %d, expected the route's 1024", got)
	}
}

func TestPathMTULeavesRoomForLongerPackets(t *testing.T) {
	dst, src := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("192.0.2.5")
	for _, c := range []struct{ route, overhead, want int }{
		{1024 + maxHeaders, 0, 1024}, {1024 + maxHeaders, 1, 512}, {1024 + maxHeaders + 40, 40, 1024}, {256 + maxHeaders, 40, 0}, {0, 40, 0},
	} {
		if got := pathMTU(dst, src, c.route, c.overhead, Interfaces); got != c.want {
			t.Errorf("%+v: found %d", c, got)
		}
	}
}

func TestPathMTUOfNoDestinationIsUnknown(t *testing.T) {
	for _, a := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if got := PathMTU(a, 0); got != 0 {
			t.Errorf("%v: found %d, expected 0", a, got)
		}
	}
}

func TestPathMTUOfLoopbackFitsItsInterface(t *testing.T) {
	list, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Loopback {
			if got := PathMTU(netip.MustParseAddr("127.0.0.1"), 0); got != 0 && got != MTUFor(i.MTU) {
				t.Errorf("found %d, expected %d of %s", got, MTUFor(i.MTU), i.Name)
			}
		}
	}
}
