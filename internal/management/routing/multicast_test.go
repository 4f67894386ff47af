package routing

import (
	"testing"

	"pgregory.net/rapid"

	"softrdma/internal/topology"
)

func TestMulticastTreesReachAllMembersOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := randomFabric(t)
		var members []topology.End
		for i := range f.Nodes {
			if first, _ := f.Nodes[i].EndPorts(); rapid.Bool().Draw(t, "member") {
				members = append(members, topology.End{Node: i, Port: first})
			}
		}
		sets := Multicast(f, members)
		for _, from := range members {
			got := make(map[topology.End]int)
			deliver(f, sets, from, got)
			for _, m := range members {
				want := 1
				if m == from {
					want = 0
				}
				if got[m] != want {
					t.Fatalf("from %s: %s got %d copies", f.EndName(from), f.EndName(m), got[m])
				}
			}
			if len(got) > len(members) {
				t.Fatalf("%d ports got a copy, %d are members", len(got), len(members))
			}
		}
	})
}

// deliver floods a packet along a tree and counts the copies at end ports.
func deliver(f *topology.Fabric, sets []PortSet, from topology.End, got map[topology.End]int) {
	type arrival struct{ at topology.End }
	queue := []arrival{{from}}
	if f.Nodes[from.Node].Kind != topology.Switch {
		queue[0].at = f.Port(from).Peer
	}
	for range 10000 {
		if len(queue) == 0 {
			return
		}
		at := queue[0].at
		queue = queue[1:]
		if f.Nodes[at.Node].Kind != topology.Switch {
			got[at]++
			continue
		}
		for p := range f.Nodes[at.Node].Ports {
			switch {
			case !sets[at.Node].Has(p) || p == at.Port:
			case p == 0:
				got[topology.End{Node: at.Node}]++
			default:
				queue = append(queue, arrival{f.Nodes[at.Node].Ports[p].Peer})
			}
		}
	}
}

func TestPortSetMask(t *testing.T) {
	var s PortSet
	s.Add(0)
	s.Add(17)
	s.Add(254)
	if s.Mask(0) != 1 || s.Mask(1) != 2 || s.Mask(15) != 1<<14 || s.Mask(2) != 0 {
		t.Fatal(s)
	}
}
