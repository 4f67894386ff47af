package verbs

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
)

// betweenSwitches returns an end of a cable between the switches of two adapters.
func betweenSwitches(t *testing.T, shape string, a, b int) topology.End {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	var switches []int
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			switches = append(switches, f.Nodes[i].Ports[1].Peer.Node)
		}
	}
	for p := range f.Nodes[switches[a]].Ports {
		if f.Nodes[switches[a]].Ports[p].Peer.Node == switches[b] && p > 0 {
			return topology.End{Node: switches[a], Port: p}
		}
	}
	t.Fatal("no such cable")
	return topology.End{}
}

// The cable of a transfer is cut and repaired in the middle. The subnet manager routes around
// it, and no request fails.
func TestFabricTransferSurvivesACutCable(t *testing.T) {
	const shape, messages, size = "ring:4", 2000, 16 << 10
	x := fabrictest.Start(t, shape)
	devices := fabricDevices(t, x)
	a, b := newFabricEnd(t, devices[0], RC), newFabricEnd(t, devices[1], RC)
	connectFabric(t, a, b, ConnectConfig{Timeout: 15}) // 134 ms, 7 times
	at := betweenSwitches(t, shape, 0, 1)
	sweeps := func() (n int) {
		x.Do(func(_ time.Duration, _ *subnet.Subnet, m *sm.Manager) { n = m.Status().Sweeps })
		return n
	}
	fill(a.mr.Bytes()[:size], 3)
	for _, cut := range []bool{true, false} {
		before := sweeps()
		for i := range messages {
			if i == messages/2 {
				x.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
					if cut {
						s.Cut(at)
					} else {
						s.Repair(at)
					}
				})
			}
			a.mr.Bytes()[0]++
			if err := a.PostSend(SendWR{Op: OpWrite, Flags: Signaled, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}); err != nil {
				t.Fatal(err)
			}
			a.wait(t)
		}
		if !bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]) {
			t.Fatalf("other bytes arrived: cut %v", cut)
		}
		fabrictest.WaitFor(t, "a sweep", func() bool { return sweeps() > before })
	}
}
