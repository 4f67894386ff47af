package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
)

// Frames that go only one way make a part ever richer, and the other one ever poorer, however many are
// under way on a long cable in a window of time.
func TestPartsShareUnusedFrames(t *testing.T) {
	link := lossless()
	link.Port.Speed = 400 * dcb.Gbit
	fabric := generate(t, "leaf-spine:leaves=2,spines=1,hosts=2")
	var n *Network
	feed := func(now dcb.Time, node int) {
		for to := node + 2; node < 2+first(fabric) && n.Host(node).Room(3); {
			f := n.PoolOf(node).Frame()
			n.Address(f, node, to, uint16(node))
			f.Len, f.DSCP, f.Priority = dcb.MinFrame, 3<<3, 3
			n.Send(now, node, f)
		}
	}
	n = New(Config{Fabric: fabric, Link: link, Parts: 2, Writable: feed,
		Each: func(e topology.End, l *Link) {
			if peer := fabric.Port(e).Peer; fabric.Nodes[e.Node].Kind == topology.Switch && fabric.Nodes[peer.Node].Kind == topology.Switch {
				l.Cable = 50 * dcb.Microsecond
			}
		},
		Deliver: func(_ dcb.Time, at topology.End, f *dcb.Frame) bool {
			n.PoolOf(at.Node).Put(f)
			return true
		}})
	for _, h := range hostsOf(n)[:2] {
		feed(0, h)
	}
	n.Run(300 * dcb.Microsecond)
	if n.Parts() != 2 {
		t.Fatalf("%d parts", n.Parts())
	}
	for i, p := range n.parts {
		if used := p.pool.Used(); used < -2*spare {
			t.Errorf("part %d has %d frames of the other one", i, -used)
		}
	}
}

// first returns the number of the first host.
func first(f *topology.Fabric) int {
	for i := range f.Nodes {
		if f.Nodes[i].Kind != topology.Switch {
			return i
		}
	}
	return -1
}

// Parts without a cable between them never notice each other.
func TestPartsWithoutACableBetweenThem(t *testing.T) {
	fabric := generate(t, "leaf-spine:leaves=2,spines=1,hosts=2")
	for i := range fabric.Nodes {
		for p := 1; p <= fabric.Nodes[i].NumPorts(); p++ {
			if peer := fabric.Nodes[i].Ports[p].Peer; peer.Port != 0 && fabric.Nodes[i].Kind == topology.Switch && fabric.Nodes[peer.Node].Kind == topology.Switch {
				fabric.Disconnect(topology.End{Node: i, Port: p})
			}
		}
	}
	due := 0
	n := New(Config{Fabric: fabric, Link: lossless(), Parts: 2, Expired: func(dcb.Time, int) { due++ }})
	for _, h := range hostsOf(n) {
		n.SetTimer(h, dcb.Microsecond)
	}
	if !n.RunSome(dcb.Millisecond, 1000) || due != 4 || n.Parts() != 2 {
		t.Errorf("%d timers were due of 4 in %d parts", due, n.Parts())
	}
}
