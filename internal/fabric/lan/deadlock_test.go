package lan

import (
	"net/netip"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
)

// circle makes a ring of switches that all route in one direction, and a flow from each host to the
// one two switches further on. All frames have priority 3.
func circle(t *testing.T, c Config, frames int) *world {
	t.Helper()
	c.Fabric = generate(t, "ring:4")
	c.Switch.Buffer.Size = 512 << 10
	c.Switch.Buffer.Lossless = -3
	w := newWorld(t, c)
	hosts := w.hosts()
	var ring []int // switches in the order of the ring
	for at, from := 0, -1; len(ring) < 4; {
		ring = append(ring, at)
		next := -1
		w.net.neighbors(at, func(_ int, to *end) {
			if k := to.at.Node; to.node.sw != nil && k != from && next < 0 && !(len(ring) > 1 && k == ring[0] && len(ring) < 4) {
				next = k
			}
		})
		at, from = next, at
	}
	leaf := func(k int) int { return ring[k%4] }
	hostOf := map[int]int{}
	for _, h := range hosts {
		hostOf[w.net.leaf(h)] = h
	}
	for k := range 4 {
		sw, next := leaf(k), leaf(k+1)
		port := 0
		w.net.neighbors(sw, func(p int, to *end) {
			if to.at.Node == next {
				port = p
			}
		})
		for d := 1; d < 4; d++ {
			to := w.net.IP(hostOf[leaf(k+d)])
			a := netip.AddrFrom4([4]byte{byte(to.Lo >> 24), byte(to.Lo >> 16), byte(to.Lo >> 8), byte(to.Lo)})
			w.net.Switch(sw).AddRoute(netip.PrefixFrom(a, 32), bridge.Hop{Port: port, Address: w.net.MAC(next)})
		}
	}
	for k := range 4 {
		w.add(flow{from: hostOf[leaf(k)], to: hostOf[leaf(k+2)], priority: 3, frames: frames})
	}
	return w
}

func TestPausesInACircleDeadlock(t *testing.T) {
	w := circle(t, Config{Link: lossless()}, 10000)
	w.net.Run(5 * dcb.Millisecond)
	s := w.net.Standstill(dcb.Millisecond)
	if len(s.Deadlock) != 4 {
		t.Fatalf("the deadlock is %v of %+v, expected four links", s.Deadlock, s.Waits)
	}
	for i, c := range s.Deadlock {
		next := s.Deadlock[(i+1)%4]
		if peer := w.net.config.Fabric.Port(c.End).Peer.Node; peer != next.End.Node || c.Priority != 3 {
			t.Errorf("%v waits for %v, which is not at its other end", c, next)
		}
	}
	for _, k := range s.Waits {
		if k.Cause != waitgraph.Deadlock { // those of the hosts as well
			t.Errorf("%+v", k)
		}
	}
	before := w.all[0].delivered
	w.net.Run(50 * dcb.Millisecond)
	if w.all[0].delivered != before || len(w.drops) != 0 {
		t.Errorf("%d frames arrived in a deadlock, dropped %v", w.all[0].delivered-before, w.drops)
	}
}

func TestWatchdogEndsADeadlock(t *testing.T) {
	arrivals := func(w *world) (n int) {
		for _, k := range w.all {
			n += k.delivered
		}
		return n
	}
	stuck := circle(t, Config{Link: lossless()}, 3000)
	stuck.net.Run(dcb.Second)
	for _, forward := range []bool{false, true} {
		c, ring := Config{Link: lossless()}, generate(t, "ring:4")
		c.Each = func(e topology.End, l *Link) {
			if ring.Nodes[e.Node].Kind == topology.Switch {
				l.Port.Watchdog = dcb.Watchdog{Detect: 200 * dcb.Microsecond, Restore: 20 * dcb.Microsecond, Forward: forward}
			}
		}
		w := circle(t, c, 3000)
		w.finish()
		if (w.drops[reason.EthernetPauseStorm] > 0) == forward || arrivals(w) <= 2*arrivals(stuck) || len(w.net.Standstill(0).Waits) != 0 {
			t.Errorf("forward %v: %d frames arrived, without a watchdog %d, dropped %v", forward, arrivals(w), arrivals(stuck), w.drops)
		}
		storms := uint64(0)
		for i := range w.net.ends {
			storms += w.net.port(&w.net.ends[i]).Counters(3).Storms
		}
		if storms == 0 {
			t.Errorf("forward %v: no storm was counted", forward)
		}
	}
}

// Without priorities that change on the way, up-down routing has no circle.
func TestShortestPathsOfATreeDoNotDeadlock(t *testing.T) {
	c := Config{Fabric: generate(t, "fat-tree:k=4"), Link: lossless()}
	c.Switch.Buffer.Size = 1 << 20
	w := newWorld(t, c)
	h := w.hosts()
	for i := range h {
		for _, d := range []int{1, 5, 8} {
			w.add(flow{from: h[i], to: h[(i+d)%len(h)], priority: 3, frames: 300})
		}
	}
	for w.net.Deadline() != dcb.Never && w.net.Now() < 10*dcb.Millisecond {
		w.net.Run(w.net.Now() + 20*dcb.Microsecond)
		if s := w.net.Standstill(0); len(s.Deadlock) != 0 {
			t.Fatalf("a deadlock: %v", s.Deadlock)
		}
	}
	w.finish()
	if len(w.drops) != 0 {
		t.Errorf("dropped %v", w.drops)
	}
}

func TestStalledHostIsTheCauseOfItsPauses(t *testing.T) {
	w, h := newStalledStar(t)
	w.add(flow{from: h[1], to: h[0], priority: 3, frames: 3000})
	w.net.Run(dcb.Millisecond)
	s := w.net.Standstill(0)
	if len(s.Waits) != 2 || len(s.Deadlock) != 0 {
		t.Fatalf("%+v", s)
	}
	for _, k := range s.Waits {
		if k.Cause != waitgraph.Program {
			t.Errorf("%+v", k)
		}
	}
}
