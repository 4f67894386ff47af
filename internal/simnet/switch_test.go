package simnet_test

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/simnet"
)

// crossing sends packets of 1,000 bytes by a link of 1 Gb/s through two switch ports, and
// returns their arrival times.
func crossing(t *testing.T, packets int, f simnet.Faults) (at []time.Duration, ports []*simnet.Port) {
	t.Helper()
	n := simnet.New(1)
	src, dst := netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")
	lc := simnet.LinkConfig{AnyICRC: true, Egress: simnet.Faults{Delay: time.Nanosecond, Bandwidth: 1e9}, Ingress: simnet.Faults{Delay: time.Nanosecond}}
	a, b := n.Attach(src, lc), n.Attach(dst, lc)
	ports = []*simnet.Port{n.NewPort(f), n.NewPort(f)}
	n.Route(func(from, to netip.AddrPort) []*simnet.Port {
		if from.Addr() != src.Addr() || to != dst {
			t.Errorf("route from %v to %v", from, to)
		}
		return ports
	})
	flow, err := a.OpenFlow(dst, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range packets {
		if err := a.Send(&link.Tx{Pieces: [][]byte{make([]byte, 1000)}, Bytes: 1000, Size: 1000, Flow: &flow.Flow}); err != nil {
			t.Fatal(err)
		}
	}
	for n.Step() {
		var rx link.Rx
		for ok, _ := b.Receive(&rx); ok; ok, _ = b.Receive(&rx) {
			for range len(rx.Data) / rx.Size {
				at = append(at, n.Clock())
			}
		}
	}
	return at, ports
}

// A packet of 1,066 bytes takes 8,528 ns on a link of 1 Gb/s.
func TestPacketsPassThePortsOfTheirRoute(t *testing.T) {
	const on, hop = 8528, 230
	f := simnet.Faults{Delay: hop, Bandwidth: 1e9, CutThrough: true}
	at, _ := crossing(t, 3, f)
	for i, want := range []time.Duration{2*hop + 2 + on, 2*hop + 2 + 2*on, 2*hop + 2 + 3*on} {
		if i >= len(at) || at[i] != want {
			t.Fatalf("cut-through: arrivals %v, expected packet %d after %v", at, i, want)
		}
	}
	f.CutThrough = false
	if at, _ = crossing(t, 1, f); len(at) != 1 || at[0] != 2*hop+2+3*on {
		t.Errorf("store-and-forward: arrivals %v, expected %v", at, time.Duration(2*hop+2+3*on))
	}
}

func TestFullPortDrops(t *testing.T) {
	at, ports := crossing(t, 10, simnet.Faults{Delay: 1, Bandwidth: 1e8, Queue: 4000})
	if s := ports[0].Stats(); len(at)+s.QueueFull != 10 || s.QueueFull == 0 || ports[1].Stats().QueueFull != 0 {
		t.Errorf("%d packets of 10 arrived, ports have %+v and %+v", len(at), s, ports[1].Stats())
	}
}
