package lan

import (
	"math/rand/v2"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A bridged network delivers a frame to a MAC address by the paths of routes, and one to a group once to
// each other host, over any cables, also when some of them are away. Its routes lead to IPv6 addresses too.
func TestBridgedNetworkDeliversEachFrameOnce(t *testing.T) {
	for _, shape := range []string{"star:3", "ring:5", "torus:3x3,hosts=2", "fat-tree:k=4", "leaf-spine:leaves=4,spines=3,hosts=2", "hyperx:3x3"} {
		got := map[int]int{} // by node
		var drops []reason.Detail
		f := generate(t, shape)
		var n *Network
		n = New(Config{
			Fabric: f, Link: Link{Port: dcb.PortConfig{Speed: 100 * dcb.Gbit}}, Seed: 1, IPv6: true, Bridged: true,
			Deliver: func(_ dcb.Time, at topology.End, x *dcb.Frame) bool {
				got[at.Node]++
				n.Pool().Put(x)
				return true
			},
			Dropped: func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) { drops = append(drops, d) },
		})
		var hosts []int
		for i := range n.Nodes() {
			if n.Host(i) != nil {
				hosts = append(hosts, i)
			}
		}
		r := rand.New(rand.NewPCG(3, 8))
		for round := range 4 {
			if round > 0 { // away with a cable that leaves the network in one part
				cutOne(n, r)
			}
			for _, from := range hosts {
				clear(got)
				n.Send(n.Now(), from, &dcb.Frame{Dst: dcb.Broadcast, Src: n.MAC(from), Len: dcb.MinFrame})
				n.Run(n.Now() + dcb.Millisecond)
				for _, h := range hosts {
					if want := 1; h != from && got[h] != want || h == from && got[h] != 0 {
						t.Fatalf("%s, round %d: host %d got %d copies of a frame to all from %d", shape, round, h, got[h], from)
					}
				}
				to := hosts[r.IntN(len(hosts))]
				if to == from {
					continue
				}
				clear(got)
				for i := range 10 {
					n.Send(n.Now(), from, &dcb.Frame{Dst: n.MAC(to), Src: n.MAC(from), Len: dcb.MinFrame, Flow: uint64(i)})
					n.Send(n.Now(), from, &dcb.Frame{Dst: n.Gateway(from), Src: n.MAC(from), Len: dcb.MinFrame, IP: true, To: IPv6(n.IP(to)), Hops: 64, Flow: uint64(i)})
				}
				n.Run(n.Now() + dcb.Millisecond)
				if len(got) != 1 || got[to] != 20 {
					t.Fatalf("%s, round %d: frames from %d to %d arrived at %v", shape, round, from, to, got)
				}
			}
		}
		if len(drops) > 0 {
			t.Errorf("%s: %d frames dropped, the first: %v", shape, len(drops), drops[0])
		}
	}
}

// cutOne cuts a random cable between switches, if the others still connect all of them.
func cutOne(n *Network, r *rand.Rand) {
	for range 20 {
		e := &n.ends[r.IntN(len(n.ends))]
		if e.peer < 0 || e.cut || e.node.sw == nil || n.ends[e.peer].node.sw == nil {
			continue
		}
		n.Cut(e.at)
		n.Reroute()
		if len(reachable(n, e.at.Node)) == switches(n) {
			return
		}
		n.Repair(e.at)
		n.Reroute()
	}
}

func switches(n *Network) (count int) {
	for i := range n.nodes {
		if n.nodes[i].sw != nil {
			count++
		}
	}
	return count
}

// reachable returns the switches that cables connect to one.
func reachable(n *Network, from int) map[int]bool {
	seen := map[int]bool{from: true}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		n.neighbors(queue[0], func(_ int, to *end) {
			if to.node.sw != nil && !seen[to.at.Node] {
				seen[to.at.Node] = true
				queue = append(queue, to.at.Node)
			}
		})
	}
	return seen
}

// Storm control of a link is that of the switch's port: what a host sends to all beyond it is dropped.
func TestStormControlLimitsWhatAHostFloods(t *testing.T) {
	drops, got := 0, 0
	c := Config{
		Fabric: generate(t, "star:3"), Bridged: true,
		Link: Link{Port: dcb.PortConfig{Speed: 10 * dcb.Gbit}, Storm: bridge.Storm{Rate: 10 * dcb.Mbit, Burst: 10 * dcb.MinFrame}},
		Dropped: func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) {
			if d.Reason == reason.EthernetStorm {
				drops++
			}
		},
	}
	var n *Network
	c.Deliver = func(_ dcb.Time, _ topology.End, f *dcb.Frame) bool {
		got++
		n.Pool().Put(f)
		return true
	}
	n = New(c)
	for range 100 {
		f := n.Pool().Frame()
		f.Dst, f.Src, f.Len = dcb.Broadcast, n.MAC(1), dcb.MinFrame
		n.Send(n.Now(), 1, f)
	}
	n.Run(dcb.Millisecond)
	if drops < 85 || drops > 90 || got != 2*(100-drops) {
		t.Errorf("%d dropped, %d arrived at two hosts", drops, got)
	}
}
