package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
)

// A Channel is a data lane of a link, named by the port that sends on it.
type Channel struct {
	End  topology.End
	Lane uint8
}

// A dependencies graph has the channels of a fabric. A packet that holds the
// buffer behind one channel and waits for another is an edge. Packets can
// deadlock only around a cycle of edges (Dally and Seitz, 1987).
type dependencies struct {
	t     *Tables
	first []int          // by node: the number of its port 0
	ends  []topology.End // by port number
	next  map[int][]int  // by channel
	edges map[[2]int]bool
	seen  []uint16 // by channel and service level: the LID that was last followed through it
}

// lanesOf is the number of channels that each port has.
const lanesOf = 16

// Cycle returns a cycle of the channel dependency graph that packets between
// adapters cause with these tables, or nil if there is none. Packets to the
// management ports of switches are not considered. The channels are in
// the order in which each waits for the next.
func (t *Tables) Cycle() []Channel {
	d := &dependencies{t: t, next: make(map[int][]int), edges: make(map[[2]int]bool)}
	for i := range t.Fabric.Nodes {
		d.first = append(d.first, len(d.ends))
		for p := range t.Fabric.Nodes[i].Ports {
			d.ends = append(d.ends, topology.End{Node: i, Port: p})
		}
	}
	d.seen = make([]uint16, len(d.ends)*lanesOf*lanesOf)
	for i := range t.Fabric.Nodes {
		n := &t.Fabric.Nodes[i]
		if n.Kind == topology.Switch {
			continue
		}
		for p := 1; p <= n.NumPorts(); p++ {
			for l := range 1 << n.Ports[p].LMC {
				d.follow(n.Ports[p].LID+uint16(l), n.Ports[p].LID != 0)
			}
		}
	}
	return d.search()
}

// follow enters the edges of packets from all adapters to a LID.
func (d *dependencies) follow(lid uint16, assigned bool) {
	if !assigned {
		return
	}
	f := d.t.Fabric
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind == topology.Switch {
			continue
		}
		for p := 1; p <= n.NumPorts(); p++ {
			port := &n.Ports[p]
			if !port.Connected() || port.LID == 0 || f.Nodes[port.Peer.Node].Kind != topology.Switch {
				continue
			}
			sl := uint8(0)
			if d.t.SL != nil {
				sl = d.t.SL(port.LID, lid)
			}
			d.packet(port.Peer, lid, sl)
		}
	}
}

// packet follows a packet that arrives at a port of a switch, until it meets
// the path of one that was followed before.
func (d *dependencies) packet(at topology.End, lid uint16, sl uint8) {
	f := d.t.Fabric
	for previous := -1; f.Nodes[at.Node].Kind == topology.Switch; {
		out := int(d.t.Out(at.Node, lid))
		if out == 0 || out > f.Nodes[at.Node].NumPorts() {
			return
		}
		lane := uint8(0)
		if d.t.Lane != nil {
			lane = d.t.Lane(at.Node, at.Port, out, sl)
		}
		if lane >= lanesOf {
			return
		}
		channel := (d.first[at.Node]+out)*lanesOf + int(lane)
		if edge := [2]int{previous, channel}; previous >= 0 && !d.edges[edge] {
			d.edges[edge] = true
			d.next[previous] = append(d.next[previous], channel)
		}
		port := &f.Nodes[at.Node].Ports[out]
		key := channel*lanesOf + int(sl&(lanesOf-1))
		if d.seen[key] == lid || !port.Connected() {
			return
		}
		d.seen[key] = lid
		previous, at = channel, port.Peer
	}
}

// search looks for a cycle.
func (d *dependencies) search() []Channel {
	next := func(c int) []int { return d.next[c] }
	circles := waitgraph.Circles(slices.Sorted(maps.Keys(d.next)), next)
	if len(circles) == 0 {
		return nil
	}
	var cycle []Channel
	for _, c := range waitgraph.Around(circles[0], next) {
		cycle = append(cycle, Channel{d.ends[c/lanesOf], uint8(c % lanesOf)})
	}
	return cycle
}

// CycleString names a cycle for people: each channel waits for the one behind it.
func CycleString(f *topology.Fabric, cycle []Channel) string {
	var b strings.Builder
	for i, c := range cycle {
		if i > 0 {
			b.WriteString(" -> ")
		}
		fmt.Fprintf(&b, "%s lane %d", f.EndName(c.End), c.Lane)
	}
	if len(cycle) > 0 {
		fmt.Fprintf(&b, " -> %s", f.EndName(cycle[0].End))
	}
	return b.String()
}
