package fabric

import (
	"net/netip"
	"testing"

	"softrdma/internal/link"
)

func TestFlowsOfDatagrams(t *testing.T) {
	d := NewDatagrams(nil, netip.MustParseAddrPort("10.0.0.1:4791"))
	to, other := netip.MustParseAddrPort("10.0.0.2:4791"), netip.MustParseAddrPort("10.0.0.3:4791")
	open := func(dst netip.AddrPort, label uint32) *link.DatagramFlow {
		t.Helper()
		f, err := d.OpenFlow(dst, label)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := open(to, 5), open(to, 5)
	if a != b || a.Src.Port() < 0xc000 || a.Src.Addr() != d.Local().Addr() || a.Dst != to {
		t.Errorf("flows %+v, %+v of one label", a, b)
	}
	c := open(to, 6)
	if c.Src == a.Src || c.Handle == a.Handle {
		t.Errorf("flows %+v, %+v of different labels", a, c)
	}
	if x := open(other, 5); x.Src != a.Src || x.Handle == a.Handle || x.Dst != other {
		t.Errorf("flow %+v to another peer", x)
	}
	d.CloseFlow(&a.Flow)
	if x := open(to, 5); x != b {
		t.Errorf("flow %+v, expected the one that is still open", x)
	}
	d.CloseFlow(&c.Flow)
	if x := open(other, 9); x.Handle != c.Handle {
		t.Errorf("handle %d, expected the one that is free: %d", x.Handle, c.Handle)
	}
	if _, err := d.OpenFlow(netip.MustParseAddrPort("[fe80::1]:4791"), 1); err == nil {
		t.Error("opened a flow to another family")
	}
	for i := range 3 {
		if id := a.Identification(i); id != 0 {
			t.Errorf("packet %d has the identification %d", i, id)
		}
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add(make([]byte, datagramLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != datagramLen {
			return
		}
		var d, again Datagram
		d.Parse(b)
		c := make([]byte, datagramLen)
		d.put(c)
		if again.Parse(c); again != d {
			t.Errorf("%+v, again %+v", d, again)
		}
	})
}
