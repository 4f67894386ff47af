package lan

import (
	"maps"
	"slices"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
	"softrdma/internal/wire/ethernet"
)

// Dependencies are the pauses that can wait for each other with the routes that the network has: a
// frame that fills the buffer behind a channel waits for another channel. Pauses can deadlock only
// around a circle of them (Dally and Seitz, 1987).
type Dependencies struct {
	net  *Network
	next map[Channel][]Channel
}

// A visit is frames with a code point that a channel brings.
type visit struct {
	Channel
	dscp uint8
}

// Dependencies follows frames of each of the priorities (bit i for priority i) from all hosts to all
// others, over all paths of equal cost. Frames that are flooded, or forwarded without a route, are
// not considered.
func (n *Network) Dependencies(priorities uint8) *Dependencies {
	d := &Dependencies{net: n, next: make(map[Channel][]Channel)}
	edges := make(map[[2]Channel]bool)
	seen := make(map[visit]bool)
	for to := range n.nodes {
		if n.nodes[to].host == nil || n.leaf(to) < 0 {
			continue
		}
		clear(seen)
		for from := range n.nodes {
			if n.nodes[from].host == nil || from == to {
				continue
			}
			for i := range uint8(ethernet.Priorities) {
				if e := &n.ends[n.nodes[from].first]; priorities&(1<<i) != 0 && n.linked(e) {
					d.follow(visit{Channel{e.at, i}, i << 3}, n.home[to], seen, edges)
				}
			}
		}
	}
	for e := range edges {
		d.next[e[0]] = append(d.next[e[0]], e[1])
	}
	for _, l := range d.next {
		slices.SortFunc(l, compareChannels)
	}
	return d
}

// linked reports whether frames can leave by an end.
func (n *Network) linked(e *end) bool { return e.peer >= 0 && !e.cut }

// follow enters what frames to a host wait for, from a channel on.
func (d *Dependencies) follow(from visit, to dcb.IP, seen map[visit]bool, edges map[[2]Channel]bool) {
	for queue := []visit{from}; len(queue) > 0; {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[v] {
			continue
		}
		seen[v] = true
		at := &d.net.ends[d.net.end(v.End).peer]
		sw := at.node.sw
		if sw == nil {
			continue
		}
		dscp := sw.Remarked(v.dscp)
		priority := sw.PriorityOf(at.at.Port, dscp)
		for _, h := range sw.Paths(to) {
			next := visit{Channel{topology.End{Node: at.at.Node, Port: h.Port}, priority}, dscp}
			a, aPauses := d.net.channel(v.Channel)
			b, bPauses := d.net.channel(next.Channel)
			if aPauses && bPauses {
				edges[[2]Channel{a, b}] = true
			}
			queue = append(queue, next)
		}
	}
}

// channel returns the channel that stands for one: with 802.3x a pause stops the whole link, for
// which priority 0 stands. It reports whether the link can pause it.
func (n *Network) channel(c Channel) (Channel, bool) {
	l := n.end(c.End).link.Port
	switch l.Pause {
	case dcb.WholeLink:
		c.Priority = 0
		return c, l.Lossless != 0
	case dcb.ByClass:
		return c, l.Lossless&(1<<c.Priority) != 0
	}
	return c, false
}

// Wait reports whether a channel can wait for another one.
func (d *Dependencies) Wait(from, to Channel) bool {
	from, _ = d.net.channel(from)
	to, _ = d.net.channel(to)
	return slices.Contains(d.next[from], to)
}

// Circles returns the sets of channels that can all wait for each other, so that their pauses can
// deadlock. There are none if no deadlock is possible. With 802.3x the channels have priority 0.
func (d *Dependencies) Circles() [][]Channel {
	sets := waitgraph.Circles(slices.SortedFunc(maps.Keys(d.next), compareChannels), d.after)
	for _, s := range sets {
		slices.SortFunc(s, compareChannels)
	}
	return sets
}

func (d *Dependencies) after(c Channel) []Channel { return d.next[c] }

// Circle returns channels of one of Circles, of which each can wait for the next one, and the last
// one for the first.
func (d *Dependencies) Circle(set []Channel) []Channel { return waitgraph.Around(set, d.after) }
