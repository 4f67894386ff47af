package simnet_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/simnet"
)

// What carries packets in the middle of the network decides which arrive, when, and with which mark.
func TestCarrierHasEachPacketOnce(t *testing.T) {
	n := simnet.New(1)
	src, dst := netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")
	lc := simnet.LinkConfig{AnyICRC: true, Egress: simnet.Faults{Delay: time.Nanosecond}, Ingress: simnet.Faults{Delay: time.Nanosecond}}
	a, b := n.Attach(src, lc), n.Attach(dst, lc)
	d := &delayed{n: n, at: time.Duration(1<<63 - 1)}
	n.Drive(d)
	n.Carry(func(x simnet.Transit) {
		if x.Src.Addr() != src.Addr() || x.Dst != dst || x.Len != 14+20+8+1000+4 || !x.IP {
			t.Errorf("%+v", x)
		}
		d.list = append(d.list, x)
		d.at = n.Clock() + time.Microsecond
	})
	flow, err := a.OpenFlow(dst, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Send(&link.Tx{Pieces: [][]byte{make([]byte, 1000)}, Bytes: 1000, Size: 1000, Flow: &flow.Flow, TOS: 2}); err != nil {
			t.Fatal(err)
		}
	}
	var at []time.Duration
	for n.Step() {
		var rx link.Rx
		for ok, _ := b.Receive(&rx); ok; ok, _ = b.Receive(&rx) {
			for range len(rx.Data) / rx.Size {
				at = append(at, n.Clock())
			}
			if rx.TOS != 3 {
				t.Errorf("type of service %d", rx.TOS)
			}
		}
	}
	if want := []time.Duration{1002, 1002}; !slices.Equal(at, want) {
		t.Errorf("arrivals %v, expected %v", at, want)
	}
}

// delayed holds packets for a microsecond. It loses the first one and marks the others.
type delayed struct {
	n    *simnet.Network
	at   time.Duration
	list []simnet.Transit
}

// Progress implements simnet.Driver.
func (d *delayed) Progress() time.Duration {
	if d.n.Clock() < d.at {
		return d.at
	}
	d.at = 1<<63 - 1
	for i, x := range d.list {
		if i == 0 {
			d.n.Lose(x)
			continue
		}
		x.TOS |= 3
		d.n.Arrive(x)
	}
	d.list = nil
	return d.at
}
