package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"softrdma/internal/fabric/topology"
)

// generate builds a fabric with LIDs.
func generate(t testing.TB, text string, lmc uint8) *topology.Fabric {
	t.Helper()
	f, err := topology.Generate(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AssignLIDs(lmc); err != nil {
		t.Fatal(err)
	}
	return f
}

// randomFabric draws a connected fabric of irregular shape.
func randomFabric(t *rapid.T) *topology.Fabric {
	switches := rapid.IntRange(1, 12).Draw(t, "switches")
	var b strings.Builder
	next := make([]int, switches)
	port := func(s int) int { next[s]++; return next[s] }
	for s := range switches {
		fmt.Fprintf(&b, "Switch 64 \"s%d\"\n", s)
		if s > 0 { // a tree first, so that everything is connected
			to := rapid.IntRange(0, s-1).Draw(t, "parent")
			fmt.Fprintf(&b, "[%d] \"s%d\"[%d]\n", port(s), to, port(to))
		}
		for range rapid.IntRange(0, 2).Draw(t, "links") {
			if s > 0 {
				to := rapid.IntRange(0, s-1).Draw(t, "to")
				fmt.Fprintf(&b, "[%d] \"s%d\"[%d]\n", port(s), to, port(to))
			}
		}
		b.WriteString("\n")
	}
	for h := range rapid.IntRange(1, 12).Draw(t, "hosts") {
		to := rapid.IntRange(0, switches-1).Draw(t, "at")
		fmt.Fprintf(&b, "Ca 1 \"h%d\"\n[1] \"s%d\"[%d]\n\n", h, to, port(to))
	}
	f, err := topology.Parse("random", b.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AssignLIDs(uint8(rapid.IntRange(0, 2).Draw(t, "lmc"))); err != nil {
		t.Fatal(err)
	}
	return f
}

type fataler interface{ Fatalf(string, ...any) }

// checkReachable checks that every end port reaches every LID by a path whose
// length is at least the shortest, and exactly that if the tables must be minimal.
func checkReachable(t fataler, tables *Tables, minimal bool) {
	f := tables.Fabric
	shortest := hops(f)
	for i := range f.Nodes {
		first, last := f.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			from := topology.End{Node: i, Port: p}
			if f.Port(from).LID == 0 {
				continue
			}
			for j := range f.Nodes {
				first, last := f.Nodes[j].EndPorts()
				for q := first; q <= last; q++ {
					to := f.Nodes[j].Ports[q]
					for l := range uint16(1) << to.LMC {
						if to.LID == 0 {
							continue
						}
						path, err := tables.Path(from, to.LID+l)
						if err != nil {
							t.Fatalf("from %s: %v", f.EndName(from), err)
						}
						if want := shortest[i][j]; len(path) < want || minimal && len(path) > want {
							t.Fatalf("from %s to %s: %d links, the shortest path has %d", f.EndName(from), f.EndName(topology.End{Node: j, Port: q}), len(path), want)
						}
					}
				}
			}
		}
	}
}

// hops has the number of links between any two nodes; adapters forward nothing.
func hops(f *topology.Fabric) [][]int {
	all := make([][]int, len(f.Nodes))
	for from := range f.Nodes {
		d := slices.Repeat([]int{-1}, len(f.Nodes))
		d[from] = 0
		for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
			n := &f.Nodes[queue[0]]
			if n.Kind != topology.Switch && queue[0] != from {
				continue
			}
			for p := range n.Ports {
				if to := n.Ports[p].Peer.Node; n.Ports[p].Connected() && d[to] < 0 {
					d[to] = d[queue[0]] + 1
					queue = append(queue, to)
				}
			}
		}
		all[from] = d
	}
	return all
}

func TestMinHopTakesShortestPathsOnRandomFabrics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables, err := Route(randomFabric(t), MinHop)
		if err != nil {
			t.Fatal(err)
		}
		checkReachable(t, tables, true)
	})
}

func TestUpDownHasNoCycleOnRandomFabrics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := randomFabric(t)
		tables, err := Route(f, UpDown)
		if err != nil {
			t.Fatal(err)
		}
		checkReachable(t, tables, false)
		if c := tables.Cycle(); c != nil {
			t.Fatal(CycleString(f, c))
		}
	})
}

func TestHashIgnoresTheOrderOfNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := randomFabric(t)
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range f.Nodes {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "order")
		g := &topology.Fabric{Nodes: make([]topology.Node, len(f.Nodes))}
		for i, n := range f.Clone().Nodes {
			for p := range n.Ports {
				n.Ports[p].Peer.Node = order[n.Ports[p].Peer.Node]
			}
			g.Nodes[order[i]] = n
		}
		for _, a := range []Algorithm{MinHop, UpDown} {
			x, err := Route(f, a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := Route(g, a)
			if err != nil {
				t.Fatal(err)
			}
			if x.Hash() != y.Hash() {
				t.Fatalf("%v differs", a)
			}
		}
	})
}

func TestRegularFabrics(t *testing.T) {
	for _, c := range []struct {
		text    string
		a       Algorithm
		minimal bool
		cycle   bool
	}{
		{"star:8", MinHop, true, false},
		{"star:8", UpDown, true, false},
		{"star:8", FatTree, true, false},
		{"ring:6", MinHop, true, true},
		{"ring:6", UpDown, false, false},
		{"ring:6", Torus, true, false},
		{"ring:7", Torus, true, false},
		{"ring:2", Torus, true, false},
		{"mesh:4x4", Torus, true, false},
		{"torus:4x4", MinHop, true, true},
		{"torus:4x4x4", Torus, true, false},
		{"torus:3x5x2x2", Torus, true, false},
		{"torus:4x4", UpDown, false, false},
		{"hyperx:4x4", UpDown, false, false},
		{"dragonfly:routers=4,global=2,hosts=2", MinHop, true, true},
		{"dragonfly:routers=4,global=2,hosts=2", UpDown, false, false},
		{"fat-tree:k=4", MinHop, true, false},
		{"fat-tree:k=4", UpDown, true, false},
		{"fat-tree:k=4", FatTree, true, false},
		{"fat-tree:k=4,levels=2", FatTree, true, false},
		{"fat-tree:k=6,hosts=5", FatTree, true, false},
	} {
		t.Run(c.text+" "+c.a.String(), func(t *testing.T) {
			f := generate(t, c.text, 1)
			tables, err := Route(f, c.a)
			if err != nil {
				t.Fatal(err)
			}
			checkReachable(t, tables, c.minimal)
			if cycle := tables.Cycle(); (cycle != nil) != c.cycle {
				t.Fatalf("cycle: %q, expected %v", CycleString(f, cycle), c.cycle)
			}
		})
	}
}

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

func TestAlgorithmNames(t *testing.T) {
	for a := MinHop; a <= Torus; a++ {
		if b, err := ParseAlgorithm(a.String()); err != nil || b != a {
			t.Fatal(a, b, err)
		}
	}
	if _, err := ParseAlgorithm("lash"); err == nil {
		t.Fatal("accepted lash")
	}
}

// TestLargeFabricsRouteQuickly has a limit far above the time they take (see the
// benchmark), so that only a change of the order of growth fails it.
func TestLargeFabricsRouteQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds with the race detector")
	}
	for _, a := range []Algorithm{MinHop, UpDown, FatTree} {
		f := generate(t, "fat-tree:k=20", 0)
		began := time.Now()
		tables, err := Route(f, a)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%v: %v for %d nodes", a, took, len(f.Nodes))
		}
		random := rand.New(rand.NewPCG(1, 1))
		for range 1000 {
			from, to := random.IntN(len(f.Nodes)), random.IntN(len(f.Nodes))
			p, _ := f.Nodes[from].EndPorts()
			q, _ := f.Nodes[to].EndPorts()
			if _, err := tables.Path(topology.End{Node: from, Port: p}, f.Nodes[to].Ports[q].LID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	for _, c := range []struct {
		text string
		a    Algorithm
	}{{"fat-tree:k=20", MinHop}, {"fat-tree:k=20", UpDown}, {"fat-tree:k=20", FatTree}, {"torus:32x32", Torus}, {"torus:32x32", UpDown}} {
		f := generate(b, c.text, 0)
		b.Run(fmt.Sprintf("%s/%v/nodes=%d", c.text, c.a, len(f.Nodes)), func(b *testing.B) {
			for b.Loop() {
				if _, err := Route(f, c.a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCycle(b *testing.B) {
	for _, c := range []struct {
		text string
		a    Algorithm
	}{{"fat-tree:k=20", FatTree}, {"torus:32x32", Torus}} {
		tables, err := Route(generate(b, c.text, 0), c.a)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.text, func(b *testing.B) {
			for b.Loop() {
				if tables.Cycle() != nil {
					b.Fatal("found a cycle")
				}
			}
		})
	}
}
