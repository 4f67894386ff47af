package agent

import (
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// chain is two adapters with switches of 4 ports between them. Each switch has
// the nodes before and after it at ports 1 and 2.
type chain struct {
	nodes []*Agent
}

func newChain(switches int) *chain {
	c := &chain{nodes: []*Agent{New(adapterConfig(1), newBoard(1))}}
	for range switches {
		c.nodes = append(c.nodes, New(switchConfig(4), newBoard(4)))
	}
	c.nodes = append(c.nodes, New(adapterConfig(1), newBoard(1)))
	return c
}

// carry sends a packet from the first node, and returns what the programs there
// receive, with the number of the nodes visited.
func (c *chain) carry(t *testing.T, p smp.Packet) (answer smp.Packet, visited int, out Departure) {
	t.Helper()
	var b [mad.Len]byte
	p.Put(&b)
	at, port := 0, 1
	o := c.nodes[0].Originate(0, &Arrival{Port: 1, DLID: smp.PermissiveLID, SLID: smp.PermissiveLID, MAD: &b}, &out)
	for visited = 1; o == Send; visited++ {
		if out.DLID != smp.PermissiveLID {
			t.Fatalf("leaves node %d for LID %d", at, out.DLID)
		}
		switch {
		case at == 0:
			at, port = 1, 1
		case at == len(c.nodes)-1:
			at, port = at-1, 2
		case out.Port == 1:
			at--
			port = min(2, c.nodes[at].config.NumPorts)
		case out.Port == 2:
			at, port = at+1, 1
		default:
			t.Fatalf("leaves node %d by port %d", at, out.Port)
		}
		b = out.MAD
		o = c.nodes[at].Receive(0, &Arrival{Port: port, DLID: smp.PermissiveLID, SLID: smp.PermissiveLID, MAD: &b}, &out)
	}
	if o == Local && at == 0 {
		answer.Parse(&out.MAD)
	}
	return answer, visited, out
}

func TestDirectedRouteReachesEachNodeAndReturns(t *testing.T) {
	for hops, path := range [][]uint8{{}, {1}, {1, 2}, {1, 2, 2}, {1, 2, 2, 2}} {
		c := newChain(3)
		p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, path)
		answer, visited, out := c.carry(t, p)
		var n smp.NodeInfo
		n.Parse(&answer.Data)
		if answer.Method != mad.MethodGetResponse || !answer.Returning || answer.Status != 0 || answer.HopPointer != 0 || visited != 2*hops+1 {
			t.Errorf("%d hops: %+v after %d nodes, %v", hops, answer, visited, out.Reason)
		}
		if want := c.nodes[hops].config.NodeGUID; n.NodeGUID != want {
			t.Errorf("%d hops reach %#x, expected %#x", hops, n.NodeGUID, want)
		}
		for i := 1; i <= hops; i++ {
			if answer.Return[i] != 1 {
				t.Errorf("%d hops: arrived at node %d by port %d", hops, i, answer.Return[i])
			}
		}
	}
}

func TestDirectedRouteOfALongestPath(t *testing.T) {
	path := []uint8{1}
	for len(path) < smp.MaxHops {
		path = append(path, 2)
	}
	answer, visited, out := newChain(smp.MaxHops-1).carry(t, smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, path))
	if answer.Method != mad.MethodGetResponse || visited != 2*smp.MaxHops+1 {
		t.Errorf("%+v after %d nodes, %v", answer, visited, out.Reason)
	}
}

func TestDirectedRouteThatLeadsNowhereIsDiscarded(t *testing.T) {
	for name, c := range map[string]struct {
		path    []uint8
		visited int
		reason  reason.Reason
	}{
		"port that the switch does not have": {[]uint8{1, 9}, 2, reason.SMPPort},
		"port 0":                             {[]uint8{1, 0}, 2, reason.SMPPort},
		"other port of the sender":           {[]uint8{2}, 1, reason.SMPPort},
		"through an adapter":                 {[]uint8{1, 2, 1, 1}, 3, reason.SMPHops},
	} {
		_, visited, out := newChain(1).carry(t, smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, c.path))
		if visited != c.visited || out.Reason.Reason != c.reason {
			t.Errorf("%s: after %d nodes for %v", name, visited, out.Reason)
		}
	}
}

// TestDirectedRouteWithForgedPointers sends what no honest neighbor sends.
func TestDirectedRouteWithForgedPointers(t *testing.T) {
	for _, c := range []struct {
		pointer, count uint8
		returning      bool
	}{
		{0, 1, false}, {0, 64, false}, {3, 1, false}, {255, 63, false}, {255, 255, true}, {3, 1, true}, {64, 64, true}, {2, 0, true},
	} {
		p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, []uint8{1})
		p.HopPointer, p.HopCount, p.Returning = c.pointer, c.count, c.returning
		for _, a := range []*Agent{New(switchConfig(4), newBoard(4)), New(adapterConfig(1), newBoard(1))} {
			if _, out, o := ask(t, a, 0, 1, p); o != Discard || out.Reason.Reason != reason.SMPHops {
				t.Errorf("%v, hop %d of %d, returning %v: %v for %v", a.config.Type, c.pointer, c.count, c.returning, o, out.Reason)
			}
		}
	}
}

// The directed part begins at a switch that is reached by LID, and the packet is routed by
// LID after its hop.
func TestDirectedRouteWithPartsRoutedByLID(t *testing.T) {
	source := New(adapterConfig(1), newBoard(1))
	source.ends[1].lid = 7
	first := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, []uint8{2})
	first.DrSLID = 7
	var b [mad.Len]byte
	first.Put(&b)
	var sent Departure
	if o := source.Originate(0, &Arrival{Port: 1, SLID: 7, DLID: 3, MAD: &b}, &sent); o != Send || sent.SLID != 7 || sent.DLID != 3 || sent.MAD != b {
		t.Errorf("source: %v from %d to %d", o, sent.SLID, sent.DLID)
	}
	sw := New(switchConfig(4), newBoard(4))
	sw.ends[0].lid = 3
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, []uint8{2})
	p.DrSLID = 7
	if answer, out, o := ask(t, sw, 0, 1, p); o != Send || out.Port != 2 || out.DLID != smp.PermissiveLID || answer.HopPointer != 1 {
		t.Errorf("first part: %v by port %d to %d", o, out.Port, out.DLID)
	}
	p = smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, []uint8{2})
	p.HopPointer, p.DrDLID = 1, 9
	answer, out, o := ask(t, sw, 0, 1, p)
	if o != Send || out.Port != 0 || out.DLID != 9 || out.SLID != 3 || answer.HopPointer != 2 || answer.Return[1] != 1 {
		t.Errorf("last part: %v by port %d to %d: %+v", o, out.Port, out.DLID, answer)
	}
	hca := New(adapterConfig(1), newBoard(1))
	hca.ends[1].lid = 9
	back, out, o := ask(t, hca, 0, 1, answer)
	if o != Send || out.DLID != 7 || back.Method != mad.MethodGetResponse || back.HopPointer != 2 {
		t.Errorf("response: %v to %d: %+v", o, out.DLID, back)
	}
	if _, out, o = ask(t, sw, 0, 2, back); o != Send || out.Port != 1 || out.DLID != smp.PermissiveLID {
		t.Errorf("back: %v by port %d to %d", o, out.Port, out.DLID)
	}
	back.HopPointer, back.DrSLID, back.DrDLID = 1, 7, smp.PermissiveLID
	if back, out, o = ask(t, sw, 0, 2, back); o != Send || out.DLID != 7 || back.HopPointer != 0 {
		t.Errorf("end of the first part: %v to %d: %+v", o, out.DLID, back)
	}
}
