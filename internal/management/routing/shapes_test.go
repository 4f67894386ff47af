package routing

import (
	"fmt"
	"strings"
	"testing"

	"softrdma/internal/topology"
)

func TestTorusWithoutLanesHasACycleThatIsNamed(t *testing.T) {
	f := generate(t, "ring:6", 0)
	tables, err := Route(f, Torus)
	if err != nil {
		t.Fatal(err)
	}
	tables.Lane = nil
	cycle := tables.Cycle()
	if len(cycle) != 6 {
		t.Fatalf("%v", cycle)
	}
	for i, c := range cycle {
		if f.Port(c.End).Peer.Node != cycle[(i+1)%6].End.Node {
			t.Fatalf("%s does not lead to the next channel", f.EndName(c.End))
		}
	}
	if s := CycleString(f, cycle); strings.Count(s, "switch-") != 7 || strings.Count(s, "lane 0") != 6 {
		t.Fatal(s)
	}
}

func TestTorusGoesRoundAMissingLink(t *testing.T) {
	f := generate(t, "torus:4x4", 0)
	f.Disconnect(linkBetween(t, f, "switch-0-0", "switch-0-1"))
	f.Disconnect(linkBetween(t, f, "switch-2-3", "switch-2-0"))
	tables, err := Route(f, Torus)
	if err != nil {
		t.Fatal(err)
	}
	checkReachable(t, tables, false)
	if c := tables.Cycle(); c != nil {
		t.Fatal(CycleString(f, c))
	}
	f.Disconnect(linkBetween(t, f, "switch-0-2", "switch-0-3"))
	if _, err := Route(f, Torus); err == nil || !strings.Contains(err.Error(), "missing link") {
		t.Fatal(err)
	}
}

// linkBetween returns the port of a that leads to b.
func linkBetween(t *testing.T, f *topology.Fabric, a, b string) topology.End {
	t.Helper()
	from, err := f.Find(a)
	if err != nil {
		t.Fatal(err)
	}
	for p := range f.Nodes[from].Ports {
		if port := f.Nodes[from].Ports[p]; port.Connected() && f.Nodes[port.Peer.Node].Description == b {
			return topology.End{Node: from, Port: p}
		}
	}
	t.Fatalf("no link from %s to %s", a, b)
	return topology.End{}
}

func TestFatTreeCarriesShiftPermutationsWithoutCollision(t *testing.T) {
	f := generate(t, "fat-tree:k=8", 0)
	tables, err := Route(f, FatTree)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []int
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			hosts = append(hosts, i)
		}
	}
	for shift := 1; shift < len(hosts); shift++ {
		used := make(map[topology.End]bool)
		for i, h := range hosts {
			path, err := tables.Path(topology.End{Node: h, Port: 1}, f.Nodes[hosts[(i+shift)%len(hosts)]].Ports[1].LID)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range path {
				if used[e] {
					t.Fatalf("shift by %d: two flows leave by %s", shift, f.EndName(e))
				}
				used[e] = true
			}
		}
	}
}

func TestFatTreeSurvivesLostLinks(t *testing.T) {
	f := generate(t, "fat-tree:k=4", 0)
	f.Disconnect(linkBetween(t, f, "spine-0-0", "leaf-0-0"))
	f.Disconnect(linkBetween(t, f, "spine-1-1", "core-1-0"))
	tables, err := Route(f, FatTree)
	if err != nil {
		t.Fatal(err)
	}
	checkReachable(t, tables, false)
	if c := tables.Cycle(); c != nil {
		t.Fatal(CycleString(f, c))
	}
}

func TestLIDsOfOnePortTakeDisjointPaths(t *testing.T) {
	f := generate(t, "fat-tree:k=4,levels=2", 1)
	for _, a := range []Algorithm{MinHop, UpDown, FatTree} {
		tables, err := Route(f, a)
		if err != nil {
			t.Fatal(err)
		}
		from, err := f.Find("node-0")
		if err != nil {
			t.Fatal(err)
		}
		to, err := f.Find("node-7")
		if err != nil {
			t.Fatal(err)
		}
		lid := f.Nodes[to].Ports[1].LID
		x, _ := tables.Path(topology.End{Node: from, Port: 1}, lid)
		y, _ := tables.Path(topology.End{Node: from, Port: 1}, lid+1)
		if len(x) != 4 || len(y) != 4 || x[1] == y[1] {
			t.Fatalf("%v: %v and %v", a, x, y)
		}
	}
}

func TestBalance(t *testing.T) {
	f := generate(t, "fat-tree:k=8,levels=2", 0)
	for _, a := range []Algorithm{MinHop, UpDown, FatTree} {
		tables, err := Route(f, a)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := f.Find("leaf-0")
		if err != nil {
			t.Fatal(err)
		}
		load := make(map[uint8]int)
		for i := range f.Nodes {
			if f.Nodes[i].Kind == topology.Adapter {
				load[tables.Out(leaf, f.Nodes[i].Ports[1].LID)]++
			}
		}
		for p := uint8(1); p <= 4; p++ { // 28 adapters behind 4 ports
			if load[p] != 7 {
				t.Errorf("%v: port %d leads to %d adapters, expected 7", a, p, load[p])
			}
		}
	}
}

func TestRouteRefuses(t *testing.T) {
	ring := generate(t, "ring:5", 0)
	tree := generate(t, "fat-tree:k=4", 0)
	node, err := tree.Find("node-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f     *topology.Fabric
		a     Algorithm
		roots []int
		want  string
	}{
		{ring, FatTree, nil, "ftree: expected links between levels; found switch-0 and switch-1"},
		{tree, Torus, nil, `torus: expected switches named by up to 4 coordinates, like switch-0-1-2; found "core-0-0"`},
		{generate(t, "torus:2x2x2x2x2", 0), Torus, nil, "up to 4 coordinates"},
		{generate(t, "hyperx:5", 0), Torus, nil, "torus: expected links between neighboring points; found switch-0 linked with switch-2"},
		{tree, UpDown, []int{node}, fmt.Sprintf("expected switches as roots; found node %d", node)},
		{generate(t, "ring:6", 0), UpDown, []int{0, 3}, "expected roots that join all adapters by paths up and down; found 2 that do not"},
	} {
		if _, err := Route(c.f, c.a, c.roots...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %s", err, c.want)
		}
	}
}

func TestPathNamesTheSwitchThatDiscardsAndTheLoop(t *testing.T) {
	f := generate(t, "ring:3", 0)
	tables, err := Route(f, MinHop)
	if err != nil {
		t.Fatal(err)
	}
	lid := f.Nodes[5].Ports[1].LID
	from := topology.End{Node: 3, Port: 1}
	tables.LFT[0][lid] = NoPort
	if _, err := tables.Path(from, lid); err == nil || !strings.Contains(err.Error(), "switch switch-0 has no link for LID") {
		t.Fatal(err)
	}
	a, b := linkBetween(t, f, "switch-0", "switch-1"), linkBetween(t, f, "switch-1", "switch-0")
	tables.LFT[0][lid], tables.LFT[1][lid] = uint8(a.Port), uint8(b.Port)
	if _, err := tables.Path(from, lid); err == nil || !strings.Contains(err.Error(), "circulate") {
		t.Fatal(err)
	}
}
