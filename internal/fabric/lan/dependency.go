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

// Dependencies follows frames of each of the priorities (bit i for priority i) from all hosts to all
// others, over all paths of equal cost. Frames that are flooded, or forwarded without a route, are
// not considered. The network keeps the answer until its routes or links change.
func (n *Network) Dependencies(priorities uint8) *Dependencies {
	if d := n.depend[priorities]; d != nil {
		return d
	}
	s := &search{net: n, next: make([][]int32, len(n.ends)*ethernet.Priorities), seen: make([]int32, len(n.ends)*codePoints)}
	for to := range n.nodes {
		// Paths to hosts of one switch differ in their last link, which is in no circle.
		if n.nodes[to].host == nil || n.leaf(to) < 0 || !firstAtSwitch(n.home[to]) {
			continue
		}
		s.round++
		for from := range n.nodes {
			if n.nodes[from].host == nil || from == to {
				continue
			}
			for i := range uint8(ethernet.Priorities) {
				if first := n.nodes[from].first; priorities&(1<<i) != 0 && n.ends[first].linked() {
					s.follow(visit{first, i, i << 3}, n.home[to])
				}
			}
		}
	}
	if n.depend == nil {
		n.depend = make(map[uint8]*Dependencies)
	}
	n.depend[priorities] = s.found()
	return n.depend[priorities]
}

// codePoints is the number of code points of DSCP.
const codePoints = 64

// A search finds dependencies. Channels have numbers: that of the end, times the priorities, plus the priority.
type search struct {
	net   *Network
	next  [][]int32 // by channel
	seen  []int32   // the round in which frames of a code point came to an end, by both
	round int32
	queue []visit
}

// A visit is frames with a code point that leave by an end on a priority.
type visit struct {
	end            int32
	priority, dscp uint8
}

// linked reports whether frames can leave by an end.
func (e *end) linked() bool { return e.peer >= 0 && !e.cut }

// follow enters what frames to a host wait for, from a channel on.
func (s *search) follow(from visit, to dcb.IP) {
	n := s.net
	for s.queue = append(s.queue[:0], from); len(s.queue) > 0; {
		v := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		key := int(v.end)*codePoints + int(v.dscp%codePoints)
		if s.seen[key] == s.round {
			continue
		}
		s.seen[key] = s.round
		at := &n.ends[n.ends[v.end].peer]
		sw := at.node.sw
		if sw == nil {
			continue
		}
		dscp := sw.Remarked(v.dscp)
		priority := sw.PriorityOf(at.at.Port, dscp)
		for _, h := range sw.Paths(to) {
			next := visit{at.node.first + int32(h.Port) - 1, priority, dscp}
			s.wait(v, next)
			s.queue = append(s.queue, next)
		}
	}
}

// wait enters that frames behind one channel can wait for another one, if pauses stop both.
func (s *search) wait(v, next visit) {
	a, aPauses := s.number(v)
	b, bPauses := s.number(next)
	if aPauses && bPauses && !slices.Contains(s.next[a], b) {
		s.next[a] = append(s.next[a], b)
	}
}

// number is the number of a channel, and whether pauses stop it.
func (s *search) number(v visit) (int32, bool) {
	c, pauses := s.net.channel(Channel{s.net.ends[v.end].at, v.priority})
	return v.end*ethernet.Priorities + int32(c.Priority), pauses
}

// found returns what the search has found.
func (s *search) found() *Dependencies {
	d := &Dependencies{net: s.net, next: make(map[Channel][]Channel)}
	channel := func(i int32) Channel {
		return Channel{s.net.ends[i/ethernet.Priorities].at, uint8(i % ethernet.Priorities)}
	}
	for i, list := range s.next {
		for _, to := range list {
			from := channel(int32(i))
			d.next[from] = append(d.next[from], channel(to))
		}
	}
	for _, l := range d.next {
		slices.SortFunc(l, compareChannels)
	}
	return d
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

// firstAtSwitch reports whether the host with an address is the first one of its switch.
func firstAtSwitch(host dcb.IP) bool { return host.Lo&(1<<hostBits-1) == 1 }

// LongestPath returns the most switches that a path between two hosts has, by the routes that there are.
func (n *Network) LongestPath() (longest int) {
	for to := range n.nodes {
		if n.nodes[to].host == nil || n.leaf(to) < 0 || !firstAtSwitch(n.home[to]) {
			continue
		}
		known := map[int]int{n.leaf(to): 1}
		for from := range n.nodes {
			if n.nodes[from].host != nil && n.leaf(from) >= 0 {
				longest = max(longest, hops(n, n.leaf(from), n.home[to], known))
			}
		}
	}
	return longest
}

// hops returns the most switches on the paths from a switch to an address, 0 if there is none.
func hops(n *Network, from int, to dcb.IP, known map[int]int) (most int) {
	if k, ok := known[from]; ok {
		return k
	}
	known[from] = 0 // routes that go around have no length
	for _, h := range n.nodes[from].sw.Paths(to) {
		if next := n.end(topology.End{Node: from, Port: h.Port}).peer; next >= 0 && n.ends[next].node.sw != nil {
			most = max(most, 1+hops(n, n.ends[next].at.Node, to, known))
		}
	}
	known[from] = most
	return most
}
