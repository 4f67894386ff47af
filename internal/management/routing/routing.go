// Package routing computes the forwarding tables of an InfiniBand fabric from
// its topology and its LIDs, and finds cycles in the channel dependency graph
// of any tables.
//
// Results depend on GUIDs, LIDs and links only, not on the order of nodes. The
// package programs no switch and keeps no state.
package routing

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"softrdma/internal/topology"
)

// An Algorithm computes tables.
type Algorithm uint8

// The algorithms.
const (
	// MinHop takes shortest paths, balanced over equal ones. It can deadlock
	// where the topology has cycles.
	MinHop Algorithm = iota
	// UpDown takes paths that go towards a root first and away from it
	// afterwards, and so cannot deadlock (Schroeder et al., 1991).
	UpDown
	// FatTree is UpDown with the path chosen by the destination's number
	// ("d-mod-k"), without collisions for shift permutations (Zahavi, 2012).
	FatTree
	// Torus takes dimensions in order. A path that crosses a dateline uses the
	// second lane in that dimension, so that no ring can deadlock (Dally and Seitz, 1987).
	Torus
)

var algorithmNames = [...]string{MinHop: "minhop", UpDown: "updn", FatTree: "ftree", Torus: "torus"}

// String is the name that opensm's -R uses, as far as it has one.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// ParseAlgorithm reads a name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("expected one of %s; found %q", strings.Join(algorithmNames[:], ", "), name)
}

// NoPort in a table discards the packets.
const NoPort = 255

// Tables say how packets go through a fabric. Route computes them; they can
// also be filled with what switches hold at present.
type Tables struct {
	Fabric *topology.Fabric
	LFT    [][]uint8 // by node, of switches; by LID: the output port

	// SL is the service level for packets from one LID to another, nil for 0.
	SL func(from, to uint16) uint8
	// Lane is the data lane of packets through a switch, nil for 0.
	Lane func(node, in, out int, sl uint8) uint8
	// Lanes is how many data lanes the tables need.
	Lanes int
}

// Route computes tables for all LIDs of a fabric. Roots are the switches at
// the top for UpDown; without any Route chooses them.
//
// Every port with a LID becomes reachable from every switch that has a path to it.
func Route(f *topology.Fabric, a Algorithm, roots ...int) (*Tables, error) {
	g := newGraph(f)
	t := &Tables{Fabric: f, Lanes: 1, LFT: make([][]uint8, len(f.Nodes))}
	for _, node := range g.nodes {
		t.LFT[node] = make([]uint8, int(g.top)+1)
		for lid := range t.LFT[node] {
			t.LFT[node][lid] = NoPort
		}
	}
	var e engine
	switch a {
	case MinHop:
		e = newMinHop(g)
	case UpDown:
		u, err := newUpDown(g, roots)
		if err != nil {
			return nil, err
		}
		e = u
	case FatTree:
		ft, err := newFatTree(g)
		if err != nil {
			return nil, err
		}
		e = ft
	case Torus:
		r, err := newTorus(g)
		if err != nil {
			return nil, err
		}
		t.Lanes, t.SL, t.Lane = 2, r.serviceLevels(), r.lane
		e = r
	default:
		return nil, fmt.Errorf("routing has no %v", a)
	}
	g.route(t, e)
	return t, nil
}

// Hash is the same for equal tables.
func (t *Tables) Hash() uint64 {
	h := fnv.New64a()
	var guid [8]byte
	for _, node := range newGraph(t.Fabric).nodes {
		binary.BigEndian.PutUint64(guid[:], t.Fabric.Nodes[node].GUID)
		h.Write(guid[:])
		h.Write(t.LFT[node])
	}
	return h.Sum64()
}

// Out is the port by which a switch sends packets to a LID, or NoPort.
func (t *Tables) Out(node int, lid uint16) uint8 {
	if lft := t.LFT[node]; int(lid) < len(lft) {
		return lft[lid]
	}
	return NoPort
}

// Path returns the ports by which a packet from an end port to a LID leaves the
// nodes on its path. The error names the switch that discards it, or the loop.
func (t *Tables) Path(from topology.End, lid uint16) ([]topology.End, error) {
	var path []topology.End
	at := from
	if t.Fabric.Nodes[from.Node].Kind != topology.Switch {
		p := t.Fabric.Port(from)
		if holds(p, lid) {
			return nil, nil
		}
		if !p.Connected() {
			return nil, fmt.Errorf("%s has no link", t.Fabric.EndName(from))
		}
		path = append(path, from)
		at = p.Peer
	}
	for range len(t.Fabric.Nodes) + 1 {
		n := &t.Fabric.Nodes[at.Node]
		if n.Kind != topology.Switch {
			if !holds(t.Fabric.Port(at), lid) {
				return path, fmt.Errorf("LID %d ends at %s, which does not have it", lid, t.Fabric.EndName(at))
			}
			return path, nil
		}
		out := int(t.Out(at.Node, lid))
		if out == 0 {
			return path, nil
		}
		if out > n.NumPorts() || !n.Ports[out].Connected() {
			return path, fmt.Errorf("switch %s has no link for LID %d: port %d", n.Description, lid, out)
		}
		path = append(path, topology.End{Node: at.Node, Port: out})
		at = n.Ports[out].Peer
	}
	return path, fmt.Errorf("packets to LID %d circulate at %s", lid, t.Fabric.EndName(at))
}

// holds reports whether a LID is one of the port's.
func holds(p *topology.Port, lid uint16) bool {
	return p.LID != 0 && lid>>p.LMC == p.LID>>p.LMC
}
