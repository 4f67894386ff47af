package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"softrdma/internal/topology"
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
	f, _, err := topology.Parse("random", b.String())
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
