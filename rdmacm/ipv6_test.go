package rdmacm

import (
	"net/netip"
	"testing"

	"softrdma/internal/registry"
	"softrdma/verbs"
)

func TestDialIPv6TwoUDPPorts(t *testing.T) {
	leavesNothing(t)
	var devs []*verbs.Device
	for _, name := range []string{"[::1]:14791", "[::1]:14792"} {
		dev, err := verbs.Open(name, verbs.Config{})
		if err != nil {
			t.Skipf("no IPv6 here: %v", err)
		}
		defer dev.Close()
		devs = append(devs, dev)
	}
	for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
		l, err := Listen("[::1]:0", ListenConfig{Device: devs[0], PortSpace: ps, QP: verbs.QPConfig{MaxInline: 64}})
		if err != nil {
			t.Fatal(err)
		}
		d := Dialer{Device: devs[1], RemoteUDPPort: 14791, QP: verbs.QPConfig{MaxInline: 64}}
		if ps == PortSpaceTCP {
			c, s := connected(t, l, d)
			if c.RemoteAddr() != l.Addr() || s.RemoteAddr() != c.LocalAddr() {
				t.Errorf("found %v, %v", c.RemoteAddr(), s.RemoteAddr())
			}
			talk(t, c, s, "over IPv6")
			talk(t, s, c, "and back")
			closed(t, c)
			closed(t, s)
		} else {
			server := accepted(t, l)
			e, to, err := d.Lookup(within(t), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			s := server()
			pd, _ := s.PD()
			received := receiver(t, pd, s.QP(), s.RecvCQ())
			own, _ := e.PD()
			post(t, own, e.end.id.QP(), e.SendCQ(), to, "found")
			if words, _ := received(); words != "found" {
				t.Errorf("received %q", words)
			}
			closed(t, e)
			closed(t, s)
		}
		closed(t, l)
	}
}

func TestDialIPv6LocalClientHasPortOfItsOwn(t *testing.T) {
	leavesNothing(t)
	d := Dialer{}
	e, err := d.Resolve(within(t), "[::1]:7471")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer closed(t, e)
	if registry.Process.Find(netip.MustParseAddrPort("[::1]:4791")) != nil {
		t.Skip("this process has the device of [::1]:4791")
	}
	if a := e.Device().Addr(); a.Addr() != netip.IPv6Loopback() || a.Port() == verbs.Port || a.Port() < 49152 {
		t.Errorf("found device %v", a)
	}
	// The server must find its address free.
	l, err := Listen("[::1]:0", ListenConfig{QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Skipf("[::1]:4791 is another process's: %v", err)
	}
	defer closed(t, l)
	d.QP.MaxInline = 64
	c, s := connected(t, l, Dialer{Device: e.Device(), QP: d.QP})
	talk(t, s, c, "to the port that was announced")
}
