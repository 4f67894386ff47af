package host

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func addrs(list ...string) (a []netip.Addr) {
	for _, s := range list {
		a = append(a, netip.MustParseAddr(s))
	}
	return a
}

// The interfaces of a host with two adapters, a VPN and a bridge that is down.
func sample() []Interface {
	return []Interface{
		{Name: "lo", Index: 1, Up: true, Loopback: true, MTU: 65536, Addrs: addrs("127.0.0.1", "::1")},
		{Name: "eth0", Index: 2, Up: true, MTU: 1500, Addrs: addrs("fe80::1%eth0", "2001:db8::5", "192.0.2.5", "192.0.2.6")},
		{Name: "eth1", Index: 3, Up: true, MTU: 1500, Addrs: addrs("198.51.100.1", "fe80::3%eth1")},
		{Name: "tun0", Index: 4, Up: true, MTU: 1400, Addrs: addrs("2001:db8:1::5", "10.0.0.5", "fe80::2%tun0")},
		{Name: "br0", Index: 5, MTU: 1500},
	}
}

func TestResolveNameGivesAddress(t *testing.T) {
	for name, want := range map[string]string{
		"lo":               "127.0.0.1:4791 lo",
		"eth0":             "192.0.2.5:4791 eth0",
		"127.0.0.1":        "127.0.0.1:4791 lo",
		"127.9.8.7":        "127.9.8.7:4791 lo",
		"127.9.8.7:5000":   "127.9.8.7:5000 lo",
		"::1":              "[::1]:4791 lo",
		"[::1]":            "[::1]:4791 lo",
		"[::1]:4792":       "[::1]:4792 lo",
		"::ffff:192.0.2.6": "192.0.2.6:4791 eth0",
		"192.0.2.6":        "192.0.2.6:4791 eth0",
		"fe80::1%eth0":     "[fe80::1%eth0]:4791 eth0",
		"[fe80::1%eth0]:5": "[fe80::1%eth0]:5 eth0",
		"fe80::2":          "[fe80::2%tun0]:4791 tun0",
	} {
		c, err := resolve(name, sample())
		if got := c.Addr.String() + " " + c.Interface.Name; err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, want)
		}
		if len(c.Why) == 0 {
			t.Errorf("%s: not explained", name)
		}
	}
}

func TestResolveUnknownNameListsDevices(t *testing.T) {
	for _, name := range []string{"eth7", "", "203.0.113.9", "fe80::1%tun0", "0.0.0.0"} {
		_, err := resolve(name, sample())
		if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "eth1 (198.51.100.1, fe80::3%eth1)") {
			t.Errorf("%q: %v, want ErrNoDevice and what exists", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "br0") {
			t.Errorf("%q: %v, offers an interface without addresses", name, err)
		}
	}
	for _, name := range []string{"127.0.0.1:0", "127.0.0.1:70000"} {
		_, err := resolve(name, sample())
		if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "UDP port: expected 1 to 65535") {
			t.Errorf("%q: %v, want ErrNoDevice and what a port is", name, err)
		}
	}
	if _, err := resolve("br0", sample()); err == nil || !strings.Contains(err.Error(), "interface br0 has no IP address") {
		t.Errorf("interface without addresses: %v", err)
	}
}

func TestDefaultDeviceFollowsRoute(t *testing.T) {
	down := sample()
	down[3].Up = false
	young := Interface{Name: "eth9", Index: 9, MTU: 1500, Up: true, Addrs: []netip.Addr{netip.MustParseAddr("fe80::9%eth9")}}
	for _, c := range []struct {
		name   string
		list   []Interface
		routes []int
		want   string
		why    string
	}{
		{"default route", sample(), []int{4}, "10.0.0.5:4791", "tun0 has the default route"},
		{"route by an interface that is down", down, []int{4, 2}, "192.0.2.5:4791", "eth0 has the default route"},
		{"route by an interface without address", sample(), []int{5}, "192.0.2.5:4791", "No default route"},
		{"no route", sample(), nil, "192.0.2.5:4791", "first interface that is up"},
		{"link-local first", append([]Interface{young}, sample()...), nil, "192.0.2.5:4791", "first interface that is up"},
		{"loopback only", sample()[:1], nil, "127.0.0.1:4791", "loopback"},
	} {
		got, err := choose(c.list, c.routes)
		if err != nil || got.Addr.String() != c.want || !strings.Contains(strings.Join(got.Why, " "), c.why) {
			t.Errorf("%s: %v %q (%v), want %s because %q", c.name, got.Addr, got.Why, err, c.want, c.why)
		}
	}
	if _, err := choose(sample()[4:], nil); err == nil {
		t.Error("host without addresses: a device was chosen")
	}
}

func TestDefaultDeviceIsLocalAddress(t *testing.T) {
	d, err := DefaultDevice()
	if err != nil {
		t.Skipf("no interface is up here: %v", err)
	}
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(d.Addr.Addr(), 0)))
	if err != nil {
		t.Fatalf("%v on %s cannot be bound to: %v", d.Addr, d.Interface.Name, err)
	}
	_ = l.Close()
	same, err := Resolve(d.Addr.Addr().String())
	if err != nil || same.Addr != d.Addr || same.Interface.Name != d.Interface.Name {
		t.Fatalf("%v: %v on %s (%v), want the same", d.Addr.Addr(), same.Addr, same.Interface.Name, err)
	}
}
