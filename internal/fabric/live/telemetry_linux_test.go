package live_test

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// asking returns a packet whose header asks for telemetry, or does not.
func asking(asks bool, n int) []byte {
	b := make([]byte, max(n, ib.BTHLen))
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendMiddle, Telemetry: asks}}
	p.PutHeaders(b)
	return b[:n]
}

// Switches say of packets that ask for it by which links they left. Others come as they did.
func TestSwitchesTellPacketsThatAsk(t *testing.T) {
	f := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=1,hosts=1", func(*live.Config) {})
	a, b := attachHost(f, 0), attachHost(f, 1)
	var last [3]own.Hop
	for i := range 20 {
		want := asking(i%2 == 0, 500+i)
		a.send(t, b, 3<<5, want)
		rx := b.receive(t)
		hops := own.ParseHops(nil, rx.Telemetry)
		if !bytes.Equal(rx.Data, want) {
			t.Fatalf("packet %d arrives as %x", i, rx.Data)
		}
		if i%2 != 0 {
			if len(hops) != 0 {
				t.Errorf("packet %d did not ask: %+v", i, hops)
			}
			continue
		}
		if len(hops) != len(last) {
			t.Fatalf("%d hops of a path of three switches", len(hops))
		}
		for k, h := range hops {
			if h.Rate != 100_000 || h.Time <= last[k].Time || h.Bytes <= last[k].Bytes || k > 0 && h.Time <= hops[k-1].Time {
				t.Errorf("packet %d, hop %d: %+v after %+v", i, k, h, last[k])
			}
			last[k] = h
		}
	}
	// A header less a byte, and a packet to the host itself, which crosses one switch.
	for _, c := range []struct {
		to      *wired
		n, hops int
	}{{b, ib.BTHLen - 1, 0}, {a, 500, 1}} {
		a.send(t, c.to, 0, asking(true, c.n))
		if rx := c.to.receive(t); len(rx.Telemetry) != c.hops*own.HopLen || len(rx.Data) != c.n {
			t.Errorf("%d bytes with %d bytes of telemetry", len(rx.Data), len(rx.Telemetry))
		}
	}
}

// A packet to a port of another protocol than RoCE v2 only looks as if it asked.
func TestSwitchesTellOnlyRoCE(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	a, b := attachHost(f, 0), attachHost(f, 1)
	for _, port := range []uint16{udpPort + 1, udpPort} {
		flow, err := a.OpenFlow(netip.AddrPortFrom(b.Local().Addr(), port), 7)
		if err != nil {
			t.Fatal(err)
		}
		p := asking(true, 100)
		if err := a.Send(&link.Tx{Pieces: [][]byte{p}, Bytes: len(p), Size: len(p), Flow: &flow.Flow}); err != nil {
			t.Fatal(err)
		}
		if rx := b.receive(t); (len(rx.Telemetry) != 0) != (port == udpPort) {
			t.Errorf("port %d: %d bytes of telemetry", port, len(rx.Telemetry))
		}
	}
}
