package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestSourceLoopbackIsLocal(t *testing.T) {
	src, err := Source(netip.MustParseAddr("127.0.0.1"))
	if err != nil || !src.IsLoopback() || !src.Is4() {
		t.Fatalf("found %v, %v, expected a loopback address", src, err)
	}
	if ok, err := IsLocal(src); !ok || err != nil {
		t.Errorf("%v local: found %v, %v", src, ok, err)
	}
	if ok, _ := IsLocal(netip.MustParseAddr("192.0.2.77")); ok {
		t.Error("192.0.2.77 is none of this machine's")
	}
}

func TestSourceUnspecifiedRefused(t *testing.T) {
	for _, a := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if _, err := Source(a); !errors.Is(err, ErrNoRoute) {
			t.Errorf("%v: found %v, expected ErrNoRoute", a, err)
		}
	}
}

func TestRouteErrorExplains(t *testing.T) {
	for _, c := range []struct {
		err  error
		dst  string
		want string
	}{
		{syscall.ENETUNREACH, "192.0.2.1", "the routing table has no matching entry"},
		{syscall.EHOSTUNREACH, "192.0.2.1", "unreachable"},
		{syscall.EACCES, "192.0.2.255", "broadcast"},
		{syscall.EINVAL, "fe80::1", "fe80::1%eth0"},
		{syscall.ENOBUFS, "192.0.2.1", "refuses"},
	} {
		err := routeError(netip.MustParseAddr(c.dst), c.err)
		if !errors.Is(err, ErrNoRoute) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v to %s: found %v, expected %q in it", c.err, c.dst, err, c.want)
		}
	}
}

func TestLocalAddressesContainLoopback(t *testing.T) {
	list, err := LocalAddresses()
	if err != nil || !slices.ContainsFunc(list, netip.Addr.IsLoopback) {
		t.Errorf("found %v, %v, expected a loopback address among them", list, err)
	}
}

func TestAddressInUse(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = net.ListenPacket("udp", c.LocalAddr().String())
	if err == nil || !AddressInUse(fmt.Errorf("wrapped: %w", err)) {
		t.Errorf("found %v, expected an address in use", err)
	}
	if AddressInUse(syscall.EADDRNOTAVAIL) {
		t.Error("EADDRNOTAVAIL taken for an address in use")
	}
}
