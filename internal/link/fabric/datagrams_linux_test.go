package fabric

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib/own"
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

// What switches say comes with the datagram that it is about, for either kind of device.
func TestDatagramsBringWhatSwitchesSay(t *testing.T) {
	l, far, _ := pairWith(t, DatagramHeaders)
	d := NewDatagrams(l, netip.MustParseAddrPort("10.0.0.1:4791"))
	v1 := NewRoCEv1(l, [6]byte{2}, "test")
	head := Datagram{Src: netip.MustParseAddrPort("10.0.0.2:50000"), Dst: d.Local(), TOS: 3 << 5}
	all := []own.Hop{{Time: 1, Bytes: 2, Queue: 3, Rate: 4}, {Time: 5}, {Bytes: 6}, {Queue: 7}, {Rate: 8}}
	for _, size := range []int{1, 60, 61, 62, 1024, MaxFrame} { // in a slot of the ring and beside it
		payload := bytes.Repeat([]byte{byte(size)}, size)
		for n := range len(all) + 1 {
			for name, receive := range map[string]func(*link.Rx) (bool, error){"RoCE v2": d.Receive, "RoCE v1": v1.Receive} {
				if !far.Deliver(3, &head, all[:n], payload) {
					t.Fatal("no room")
				}
				var rx link.Rx
				if ok, err := receive(&rx); !ok || err != nil || !bytes.Equal(rx.Data, payload) || rx.Size != size {
					t.Fatalf("%s: %v, %v, %d of %d bytes", name, ok, err, len(rx.Data), size)
				}
				if got := own.ParseHops(nil, rx.Telemetry); !slices.Equal(got, all[:n]) || len(rx.Telemetry) != n*own.HopLen {
					t.Errorf("%s: hops %+v, expected %+v", name, got, all[:n])
				}
			}
		}
	}
}

// Only the fabric says what switches said, and never more than there is.
func TestTelemetryOfTheWrongSideIsRefused(t *testing.T) {
	hops := make([]own.Hop, own.MaxHops+1)
	for _, c := range []struct {
		name    string
		program bool // sends
		hops    int
		cut     int // of the payload that goes missing
	}{
		{"from a program", true, 1, 0},
		{"too many", false, own.MaxHops + 1, 0},
		{"without a payload", false, 1, 100},
		{"longer than the message", false, 2, own.HopLen + 100},
	} {
		l, far, _ := pairWith(t, DatagramHeaders)
		from, to := far, l.end
		if c.program {
			from, to = l.end, far
		}
		head := Datagram{Src: netip.MustParseAddrPort("10.0.0.2:50000"), Dst: netip.MustParseAddrPort("10.0.0.1:4791")}
		if c.cut == 0 {
			from.Deliver(0, &head, hops[:c.hops], make([]byte, 100))
		} else {
			from.header[2+hopsAt] = uint8(c.hops)
			n := c.hops*own.HopLen + 100 - c.cut
			from.PutDatagrams(0, &head, 100, [][]byte{make([]byte, n)}, n)
		}
		var b Batch
		if ok, fault := to.Next(0, &b); ok || fault.Reason != reason.FabricBatch {
			t.Errorf("%s: %v, %+v", c.name, ok, fault)
		}
	}
}

// fuzzDatagramRings lets the fabric write anything into the ring of a program's datagrams.
func fuzzDatagramRings(t *testing.T, at uint32, b []byte, sl uint8) {
	l, far, _ := pairWith(t, DatagramHeaders)
	d := NewDatagrams(l, netip.MustParseAddrPort("10.0.0.1:4791"))
	far.Deliver(sl, &Datagram{}, make([]own.Hop, at%(own.MaxHops+1)), packet(sl, 200))
	mem := far.memory.Bytes()
	copy(mem[int(at)%len(mem):], b)
	var rx link.Rx
	for range 3 {
		if ok, err := d.Receive(&rx); err != nil || ok && len(rx.Telemetry) > own.MaxHops*own.HopLen {
			t.Fatal(ok, err, len(rx.Telemetry))
		}
	}
}
