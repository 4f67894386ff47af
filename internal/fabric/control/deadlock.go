package control

import (
	"cmp"
	"time"

	"softrdma/internal/fabric/node"
	"softrdma/internal/fabric/port"
	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
)

// A Deadlock says whether packets can wait for each other in a circle, and whether they do.
type Deadlock struct {
	// Cycle is a cycle of the channel dependency graph of the present tables, in which each
	// channel waits for the next (Dally and Seitz, 1987). It is empty if there is none. On Ethernet
	// the channels are priorities with pauses, and Cycles is how many sets of them can wait for each other.
	Cycle   []Channel `json:"cycle"`
	Cycles  int       `json:"cycles,omitempty"`
	Avoid   []string  `json:"avoid,omitempty"` // on Ethernet: what leaves no cycle, in words
	From    []int     `json:"from,omitempty"`  // on Ethernet: the priorities with which hosts send
	Assumed bool      `json:"assumed"`         // the service level of each path is assumed

	// Still are the lanes that lack credit for longer than Request.Still.
	Still []Lane `json:"still"`

	// Deadlock is a circle of lanes that stand still, of which each waits for the next one.
	// No packet on them moves again until a link goes down or a time limit discards packets.
	Deadlock []Channel `json:"deadlock"`
}

// A Channel is a data lane of a link, or a priority of a link of Ethernet, named by the port that
// sends on it.
type Channel struct {
	Node string `json:"node"`
	Port int    `json:"port"`
	VL   uint8  `json:"vl"`
}

// A Lane is a data lane that stands still.
type Lane struct {
	Channel
	To      string        `json:"to"`      // the port at the other end
	Time    time.Duration `json:"time"`    // for how long, in nanoseconds
	Packets int           `json:"packets"` // that wait on it
	Cause   string        `json:"cause"`
	Waits   []Channel     `json:"waits"` // lanes on which the packets wait that fill the buffer at the other end
}

// Causes of lanes that stand still.
const (
	CauseDeadlock = waitgraph.Deadlock
	CauseProgram  = waitgraph.Program
	CauseCredits  = waitgraph.Lost
	CauseTraffic  = waitgraph.Traffic
)

// defaultStill is long compared with the time that any packet takes on a link.
const defaultStill = time.Millisecond

func (c *view) deadlock(r *Request, reply *Reply) error {
	still := r.Still
	if still <= 0 {
		still = defaultStill
	}
	d := &Deadlock{Cycle: []Channel{}, Still: []Lane{}, Deadlock: []Channel{}, Assumed: r.SL == nil && !c.knowsLevels()}
	for _, ch := range c.present(r.SL).Cycle() {
		d.Cycle = append(d.Cycle, c.channel(ch))
	}
	g := c.waits(still)
	for _, at := range g.order {
		d.Still = append(d.Still, g.lane(at))
	}
	for _, at := range g.lanes.Circle(compareChannels) {
		d.Deadlock = append(d.Deadlock, c.channel(at))
	}
	reply.Deadlock = d
	return nil
}

func (c *view) channel(ch routing.Channel) Channel {
	return Channel{c.names[ch.End.Node], ch.End.Port, ch.Lane}
}

// A waitGraph has the lanes that stand still, and which of them wait for which.
type waitGraph struct {
	*view
	order  []routing.Channel
	queues map[routing.Channel]node.Queue
	lanes  waitgraph.Graph[routing.Channel]
}

// waits looks at every queue of the fabric.
func (c *view) waits(still time.Duration) *waitGraph {
	g := &waitGraph{view: c, queues: make(map[routing.Channel]node.Queue), lanes: make(waitgraph.Graph[routing.Channel])}
	queues := make([][]node.Queue, len(c.fabric.Nodes))
	for i := range c.fabric.Nodes {
		queues[i] = c.Node(i).Queues()
		for _, q := range queues[i] {
			if !q.Host && q.Blocked && c.now-q.Since >= still {
				at := routing.Channel{End: topology.End{Node: i, Port: q.Port}, Lane: q.VL}
				g.lanes[at], g.queues[at] = new(waitgraph.Lane[routing.Channel]), q
				g.order = append(g.order, at)
			}
		}
	}
	for _, at := range g.order {
		g.join(at, queues)
	}
	g.lanes.Judge()
	return g
}

// join finds out what a lane waits for.
func (g *waitGraph) join(at routing.Channel, queues [][]node.Queue) {
	l := g.lanes[at]
	peer := g.fabric.Port(at.End).Peer
	for _, q := range queues[peer.Node] {
		if q.From[port.Origin{Port: peer.Port, VL: at.Lane}] == 0 {
			continue
		}
		to := routing.Channel{End: topology.End{Node: peer.Node, Port: q.Port}, Lane: q.VL}
		switch {
		case q.Host && q.Blocked:
			l.Program = true
		case !q.Host && g.lanes[to] != nil:
			l.Next = append(l.Next, to)
		default:
			l.Moves = true
		}
	}
}

func (g *waitGraph) lane(at routing.Channel) Lane {
	l, q := g.lanes[at], g.queues[at]
	lane := Lane{Channel: g.channel(at), To: g.endName(g.fabric.Port(at.End).Peer), Time: g.now - q.Since, Packets: q.Packets,
		Cause: l.Cause, Waits: []Channel{}}
	for _, to := range l.Next {
		lane.Waits = append(lane.Waits, g.channel(to))
	}
	return lane
}

func compareChannels(a, b routing.Channel) int {
	return cmp.Or(cmp.Compare(a.End.Node, b.End.Node), cmp.Compare(a.End.Port, b.End.Port), cmp.Compare(a.Lane, b.Lane))
}
