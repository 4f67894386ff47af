package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of generated fabrics.
const (
	maxGenerated  = 32768 // nodes; LIDs end at 49,151
	maxDimensions = 8
)

// GUIDs of generated nodes, locally administered. They depend on the node's
// position among its kind and the part only, so that the same text always gives
// the same fabric.
const (
	adapterGUIDs = 0x025dfa0000100000
	switchGUIDs  = 0x025dfa0001000000
	partShift    = 32
	maxPart      = 255
)

// A shape is one kind of fabric that Generate knows.
type shape struct {
	name    string
	example string
	params  []string // which parameters it knows
	build   func(*generator)
}

var shapes = []shape{
	{"fat-tree", "fat-tree:k=8,levels=3", []string{"k", "levels", "hosts"}, fatTree},
	{"dragonfly", "dragonfly:routers=4,global=2,hosts=2,groups=9", []string{"routers", "global", "hosts", "groups"}, dragonfly},
	{"torus", "torus:4x4x4,hosts=1", []string{"", "hosts"}, func(g *generator) { g.grid(true) }},
	{"mesh", "mesh:4x4,hosts=1", []string{"", "hosts"}, func(g *generator) { g.grid(false) }},
	{"hyperx", "hyperx:4x4,hosts=4", []string{"", "hosts"}, hyperX},
	{"ring", "ring:4,hosts=1", []string{"", "hosts"}, ring},
	{"star", "star:8", []string{""}, star},
	{"leaf-spine", "leaf-spine:leaves=4,spines=2,hosts=8", []string{"leaves", "spines", "hosts", "links", "oversubscription"}, leafSpine},
}

// Generate builds a regular fabric from a text like "fat-tree:k=8". Every shape
// takes width= and speed= of its links as well: speed=EDR is InfiniBand,
// speed=100G is Ethernet, whose links have no width. The cables have a length if
// length= is there. switch-speed= and switch-length= are those of links between
// switches, if they differ. failed=3 leaves out three links between switches, at
// random by seed=, of those without which all nodes still reach each other. With
// spare=2 each switch has two more ports, for trunks. Fabrics that trunks join need
// different GUIDs: part=1 to 255 changes those and the names of the nodes.
//
//   - leaf-spine:leaves=4,spines=2,hosts=8 links each leaf switch, which has hosts, with
//     each spine switch, or by links= of them. oversubscription=3 is the speed of a
//     leaf's hosts divided by that of its links to spines. Without spines= or hosts= it
//     follows from the others; the oversubscription is 1 then unless it is there.
//   - fat-tree:k=8,levels=3 has switches of k ports in two or three levels, and
//     k/2 hosts on each leaf switch (or hosts=).
//   - dragonfly:routers=4,global=2,hosts=2,groups=9 has groups of fully linked
//     switches, each with some global links. Without groups= it is the greatest: routers*global+1.
//   - torus:4x4x4 and mesh:4x4 have a switch at each point, with hosts=1 on each.
//   - hyperx:4x4 links every switch with all that differ from it in one coordinate.
//   - ring:4 is a torus of one dimension.
//   - star:8 is one switch with eight hosts.
func Generate(text string) (*Fabric, error) {
	name, rest, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
	if i < 0 {
		var known []string
		for _, s := range shapes {
			known = append(known, s.example)
		}
		return nil, fmt.Errorf("topology %q: expected one of %s; found %q", text, strings.Join(known, ", "), name)
	}
	s := &shapes[i]
	g := &generator{f: &Fabric{}, host: cable{DefaultWidth, DefaultSpeed, 0}}
	err := g.parse(rest, s)
	if err == nil {
		if s.build(g); g.err == nil {
			g.leaveOut(g.number("failed", 0, maxGenerated*MaxPorts, 0), g.number("seed", 0, 1<<31-1, 0))
		}
		err = g.err
	}
	if err != nil {
		return nil, fmt.Errorf("topology %q: %w (example: %s)", text, err, s.example)
	}
	return g.f, nil
}

// A generator builds a fabric, and keeps the first error.
type generator struct {
	f        *Fabric
	params   map[string]string
	host     cable // of a host
	fabric   cable // between switches
	switches int
	hosts    int
	part     int
	spare    int   // ports of each switch without a link
	used     []int // by node: the highest port that has a link
	err      error
}

func (g *generator) failf(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// checkSize fails if a fabric would be too large to build.
func (g *generator) checkSize(switches, hosts int) bool {
	if switches+hosts > maxGenerated {
		g.failf("expected %d nodes at most, found %d switches and %d hosts", maxGenerated, switches, hosts)
	}
	return g.err == nil
}

// checkPorts fails if a switch would have no port or too many.
func (g *generator) checkPorts(ports int) bool {
	if ports < 1 || ports > MaxPorts {
		g.failf("expected switches of 1 to %d ports, found %d", MaxPorts, ports)
	}
	return g.err == nil
}

// addSwitch adds a switch and returns its index. Switches come before hosts, so
// their indices are their numbers.
func (g *generator) addSwitch(name string, ports int) int {
	guid := g.guid(switchGUIDs + g.switches)
	g.switches++
	g.used = append(g.used, 0)
	g.checkPorts(ports + g.spare)
	return g.f.addNode(Switch, fmt.Sprintf("S-%016x", guid), g.name(name), guid, min(ports+g.spare, MaxPorts))
}

// guid is the GUID of a node of this part.
func (g *generator) guid(n int) uint64 { return uint64(n) + uint64(g.part)<<partShift }

// name is the name of a node of this part.
func (g *generator) name(s string) string {
	if g.part == 0 {
		return s
	}
	return fmt.Sprintf("p%d-%s", g.part, s)
}

// addHosts connects n hosts with a switch's next ports.
func (g *generator) addHosts(to, n int) {
	for range n {
		guid := g.guid(adapterGUIDs + 2*g.hosts) // one for the node and one for its port
		host := g.f.addNode(Adapter, fmt.Sprintf("H-%016x", guid), g.name(fmt.Sprintf("node-%d", g.hosts)), guid, 1)
		g.hosts++
		g.used[to]++
		g.f.connect(End{host, 1}, End{to, g.used[to]}, g.host)
	}
}

// connectSwitches joins two switches by their next ports.
func (g *generator) connectSwitches(a, b int) {
	g.used[a]++
	g.used[b]++
	g.f.connect(End{a, g.used[a]}, End{b, g.used[b]}, g.fabric)
}
