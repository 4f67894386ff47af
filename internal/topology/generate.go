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
}

// Generate builds a regular fabric from a text like "fat-tree:k=8". Every shape
// takes width= and speed= of its links as well. With spare=2 each switch has two
// more ports, for trunks. Fabrics that trunks join need different GUIDs: part=1
// to 255 changes those and the names of the nodes.
//
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
	g := &generator{f: &Fabric{}, width: DefaultWidth, speed: DefaultSpeed}
	err := g.parse(rest, s)
	if err == nil {
		s.build(g)
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
	width    Width
	speed    Speed
	switches int
	hosts    int
	part     int
	spare    int   // ports of each switch without a link
	used     []int // by node: the highest port that has a link
	err      error
}

func (g *generator) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// checkSize fails if a fabric would be too large to build.
func (g *generator) checkSize(switches, hosts int) bool {
	if switches+hosts > maxGenerated {
		g.fail("expected %d nodes at most, found %d switches and %d hosts", maxGenerated, switches, hosts)
	}
	return g.err == nil
}

// checkPorts fails if a switch would have no port or too many.
func (g *generator) checkPorts(ports int) bool {
	if ports < 1 || ports > MaxPorts {
		g.fail("expected switches of 1 to %d ports, found %d", MaxPorts, ports)
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
		g.f.connect(End{host, 1}, End{to, g.used[to]}, g.width, g.speed)
	}
}

// connectSwitches joins two switches by their next ports.
func (g *generator) connectSwitches(a, b int) {
	g.used[a]++
	g.used[b]++
	g.f.connect(End{a, g.used[a]}, End{b, g.used[b]}, g.width, g.speed)
}
