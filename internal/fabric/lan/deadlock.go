package lan

import (
	"cmp"
	"math/bits"
	"slices"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
	"softrdma/internal/wire/ethernet"
)

// A Channel is a priority of a link, named by the port that sends on it.
type Channel struct {
	End      topology.End
	Priority uint8
}

// A Wait is a channel that the neighbor has paused while frames wait for it.
type Wait struct {
	Channel
	Since  dcb.Time
	Frames int       // that wait for it
	Cause  string    // one of package waitgraph
	Next   []Channel // paused channels on which the frames wait that fill the neighbor
}

// A Standstill is which pauses wait for each other.
type Standstill struct {
	Waits []Wait

	// Deadlock is a circle of channels of which each waits for the next one. No frame on them moves
	// again until a link goes down or a watchdog drops frames. It is empty if there is none.
	Deadlock []Channel
}

// Standstill looks at the pauses that have lasted for a time or longer.
func (n *Network) Standstill(still dcb.Time) (s Standstill) {
	g := make(waitgraph.Graph[Channel])
	for i := range n.ends {
		e := &n.ends[i]
		p := n.port(e)
		for priority := range uint8(ethernet.Priorities) {
			if p.Halted()&(1<<priority) == 0 || p.Queue(priority).Frames == 0 || n.Now()-p.HaltedSince(priority) < still {
				continue
			}
			at := Channel{e.at, priority}
			g[at] = new(waitgraph.Lane[Channel])
			s.Waits = append(s.Waits, Wait{Channel: at, Since: p.HaltedSince(priority), Frames: p.Queue(priority).Frames})
		}
	}
	for _, w := range s.Waits {
		n.pause(g, w.Channel)
	}
	g.Judge()
	for i := range s.Waits {
		w := &s.Waits[i]
		w.Cause, w.Next = g[w.Channel].Cause, n.reached(g, w.Channel)
	}
	s.Deadlock = slices.DeleteFunc(g.Circle(compareChannels), Channel.part)
	return s
}

func compareChannels(a, b Channel) int {
	return cmp.Or(cmp.Compare(a.End.Node, b.End.Node), cmp.Compare(a.End.Port, b.End.Port), cmp.Compare(a.Priority, b.Priority))
}

// parts is the first Priority of Channels that stand for a part of a pause of 802.3x: it lasts until
// each priority of the neighbor that causes it has room.
const parts = ethernet.Priorities

func (c Channel) part() bool { return c.Priority >= parts }

// reached returns the channels for which one waits, without parts of pauses.
func (n *Network) reached(g waitgraph.Graph[Channel], at Channel) (all []Channel) {
	for _, to := range g[at].Next {
		if to.part() {
			all = append(all, g[to].Next...)
		} else {
			all = append(all, to)
		}
	}
	return all
}

// pause finds out what a paused channel waits for.
func (n *Network) pause(g waitgraph.Graph[Channel], at Channel) {
	e := n.end(at.End)
	if e.peer < 0 { // what a trunk waits for is in another network
		g[at].Moves = true
		return
	}
	if e.link.Port.Pause != dcb.WholeLink {
		n.join(g, at, at.Priority)
		return
	}
	l := g[at]
	l.All = true
	for priority := range uint8(ethernet.Priorities) {
		if n.port(&n.ends[e.peer]).Stopped()&(1<<priority) == 0 {
			continue
		}
		part := Channel{at.End, parts + priority}
		if g[part] == nil {
			g[part] = new(waitgraph.Lane[Channel])
			n.join(g, part, priority)
		}
		l.Next = append(l.Next, part)
	}
	l.Moves = len(l.Next) == 0 // the end of the pause is under way
}

// port returns the port of an end.
func (n *Network) port(e *end) *dcb.Port {
	if e.node.sw != nil {
		return &e.node.sw.Port(e.at.Port).Port
	}
	return &e.node.host.Port
}

// join finds out what a channel waits for, if frames of a priority fill the neighbor.
func (n *Network) join(g waitgraph.Graph[Channel], at Channel, priority uint8) {
	l := g[at]
	peer := &n.ends[n.end(at.End).peer]
	if peer.node.host != nil {
		l.Program = peer.node.host.Held(priority) > 0
		l.Moves = !l.Program && peer.node.host.Stopped()&(1<<priority) == 0
		return
	}
	if n.port(peer).Stopped()&(1<<priority) == 0 { // the end of the pause is under way, or was lost
		l.Moves = n.port(peer).Telling() || n.end(at.End).flights.Frames > 0
		return
	}
	// What is under way may be for ports that are not paused.
	peer.flights.All(func(f *dcb.Frame) { l.Moves = l.Moves || f.Op == 0 && f.Priority == priority })
	sw := peer.node.sw
	for out := 1; out <= sw.Ports(); out++ {
		for set := sw.Port(out).Ready(); set != 0; set &= set - 1 {
			to := Channel{topology.End{Node: peer.at.Node, Port: out}, uint8(bits.TrailingZeros8(set))}
			from := 0
			sw.Port(out).Queue(to.Priority).All(func(f *dcb.Frame) {
				if int(f.In) == peer.at.Port && f.From == priority {
					from++
				}
			})
			switch {
			case from == 0:
			case g[to] != nil:
				l.Next = append(l.Next, to)
			default:
				l.Moves = true
			}
		}
	}
}
