// Package lan is a network of Ethernet switches and hosts on virtual time: cables that carry frames
// between their ports, routes, and an event queue. The same configuration and the same calls give
// the same events, whatever the machine.
//
//	        first byte                  first byte, or the last one at a host
//	node ------------> cable: delay ------------> node
//	 ^                                              |
//	 | Run: a port's deadline                       v
//	 +-------------- event queue <------------------+
//
// The package does no I/O and reads no clock. A network belongs to one goroutine at a time.
package lan

import (
	"cmp"
	"fmt"
	"math"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// perMetre is the delay of a metre of cable.
const perMetre = 5 * dcb.Nanosecond

// DefaultCable is the delay of a cable of five metres.
const DefaultCable = 5 * perMetre

// A Link is what the two ends of a cable are made with.
type Link struct {
	Port  dcb.PortConfig
	Cable dcb.Time // delay; DefaultCable if 0, see Config

	// Headroom is the bytes of each lossless priority of the ports at the link: those that it needs
	// (see dcb.Headroom) if 0, none if negative.
	Headroom int
}

// A Config is what a network is made of. If the fabric has the speed of a link of Ethernet, or the
// length of its cable, they replace Speed and Cable.
type Config struct {
	Fabric *topology.Fabric              // nodes and cables
	Link   Link                          // of each cable
	Each   func(e topology.End, l *Link) // changes the link of an end's cable; may be nil
	Switch bridge.Config                 // of each switch, without Ports, Address and Seed
	Host   station.Config                // of each host, without Link
	Seed   uint64

	// UpDown makes routes go up towards a root and then down, so that pauses cannot deadlock. Routes
	// are all shortest paths otherwise.
	UpDown bool

	// Deliver gets each frame that ends at a host, or at a switch itself. See dcb.Env.
	Deliver func(now dcb.Time, at topology.End, f *dcb.Frame) bool

	// Writable is called when a frame of a host has left its queue, and when the host's link comes
	// up. It may call Send. It may be nil.
	Writable func(now dcb.Time, node int)

	// Dropped is called for each frame that is dropped. It may be nil.
	Dropped func(now dcb.Time, at topology.End, f *dcb.Frame, d reason.Detail)

	// Expired is called when a timer of Timers is due, which has no deadline then. It may be nil if
	// there are no such timers.
	Expired func(now dcb.Time, timer int)
}

// A Network is nodes and cables.
type Network struct {
	config Config
	now    dcb.Time
	last   dcb.Time // of an event
	pool   dcb.Pool
	due    eventqueue.Deadlines[dcb.Time]
	nodes  []node
	ends   []end
	home   []dcb.IP // of each host
	cuts   int      // ends whose cable is away
	events uint64
}

// A node is a switch or a host. It is the Env of its machine.
type node struct {
	net   *Network
	index int
	first int32 // of its ends
	sw    *bridge.Switch
	host  *station.Port
	left  bool // frames have left the host's queue since Writable
}

// An end is an end of a cable. It has two timers: 2i for the port and 2i+1 for what arrives at it.
type end struct {
	at      topology.End
	node    *node
	peer    int32 // -1 without a cable
	cut     bool
	link    *Link
	delay   dcb.Time
	perByte dcb.Time
	flights dcb.List // on their way to this end
	lost    uint64   // frames that were under way when the cable was cut
}

// Check refuses nodes that a network does not have: hosts with another cable than one from port 1 to
// a switch. Hosts without a cable have no address.
func Check(f *topology.Fabric) error {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := 1; p <= n.NumPorts() && n.Kind != topology.Switch; p++ {
			if peer := n.Ports[p].Peer; peer.Port != 0 && (p != 1 || f.Nodes[peer.Node].Kind != topology.Switch) {
				return fmt.Errorf("expected a cable of a host from port 1 to a switch, found one from %s to %s", f.EndName(topology.End{Node: i, Port: p}), f.EndName(peer))
			}
		}
	}
	return nil
}

// New makes a network. All links are up, and the switches have routes between all hosts.
func New(c Config) *Network {
	n := &Network{config: c, nodes: make([]node, len(c.Fabric.Nodes)), home: make([]dcb.IP, len(c.Fabric.Nodes))}
	base := make([]int32, len(c.Fabric.Nodes))
	total := 0
	for i := range c.Fabric.Nodes {
		base[i] = int32(total)
		total += c.Fabric.Nodes[i].NumPorts()
	}
	n.ends = make([]end, total)
	n.due.Add(2 * total)
	for i := range c.Fabric.Nodes {
		t := &c.Fabric.Nodes[i]
		n.nodes[i] = node{net: n, index: i, first: base[i]}
		for p := 1; p <= t.NumPorts(); p++ {
			e := &n.ends[int(base[i])+p-1]
			*e = end{at: topology.End{Node: i, Port: p}, node: &n.nodes[i], peer: -1}
			if peer := t.Ports[p].Peer; peer.Port != 0 {
				e.peer = base[peer.Node] + int32(peer.Port) - 1
			}
		}
	}
	n.links()
	for i := range n.nodes {
		n.make(&n.nodes[i])
	}
	for i := range n.ends {
		if n.ends[i].peer >= 0 {
			n.setLink(&n.ends[i], true)
		}
	}
	n.address()
	n.Reroute()
	return n
}

// links gives each end its link. Ends with equal ones share it.
func (n *Network) links() {
	shared := make(map[Link]*Link)
	for i := range n.ends {
		e := &n.ends[i]
		l := n.config.Link
		if l.Cable == 0 {
			l.Cable = DefaultCable
		}
		p := n.config.Fabric.Port(e.at)
		if p.Speed.Ethernet() {
			l.Port.Speed = dcb.Speed(topology.LinkRate(p.Width, p.Speed))
		}
		if p.Length != 0 {
			l.Cable = dcb.Time(p.Length) * perMetre / dcb.Time(topology.Metre)
		}
		if n.config.Each != nil {
			n.config.Each(e.at, &l)
		}
		if e.link = shared[l]; e.link == nil {
			e.link = &l
			shared[l] = e.link
		}
		e.delay, e.perByte = l.Cable, l.Port.Speed.PerByte()
	}
}

// make makes the machine of a node.
func (n *Network) make(k *node) {
	t := &n.config.Fabric.Nodes[k.index]
	if t.Kind != topology.Switch {
		c, l := n.config.Host, n.ends[k.first].link
		c.Link = &l.Port
		if c.Headroom == 0 {
			c.Headroom = l.headroom(bridge.DefaultCell)
		}
		k.host = station.New(&c, k, &n.pool, MAC(k.index))
		return
	}
	c := n.config.Switch
	c.Address, c.Seed = MAC(k.index), dcb.Mix(n.config.Seed^uint64(k.index+1)<<32)
	c.Ports = make([]bridge.PortConfig, t.NumPorts()+1)
	for p := 1; p <= t.NumPorts(); p++ {
		l := n.ends[int(k.first)+p-1].link
		c.Ports[p] = bridge.PortConfig{Link: &l.Port, Headroom: l.headroom(cmp.Or(c.Buffer.Cell, bridge.DefaultCell))}
	}
	k.sw = bridge.New(c, k, &n.pool)
}

// headroom is the headroom of a port at the link, whose buffer has cells.
func (l *Link) headroom(cell int) int {
	if l.Headroom != 0 {
		return max(l.Headroom, 0)
	}
	return dcb.Headroom(&l.Port, cell, dcb.MinFrame, l.Cable, l.Port.Response)
}

// Pool returns the pool for the frames of Send.
func (n *Network) Pool() *dcb.Pool { return &n.pool }

// Now returns the time of the last event, or the time until which Run ran.
func (n *Network) Now() dcb.Time { return n.now }

// Events returns the number of events so far.
func (n *Network) Events() uint64 { return n.events }

// Nodes returns the number of nodes, which have numbers from 0 on.
func (n *Network) Nodes() int { return len(n.nodes) }

// Switch returns the switch of a node, nil if it is a host.
func (n *Network) Switch(node int) *bridge.Switch { return n.nodes[node].sw }

// Host returns the port of a host, nil if the node is a switch.
func (n *Network) Host(node int) *station.Port { return n.nodes[node].host }

// Timers makes timers of the caller's, without deadlines, and returns the number of the first one.
// They are due in the order of time together with the events of the network.
func (n *Network) Timers(count int) (first int) { return n.due.Add(count) - 2*len(n.ends) }

// SetTimer changes the deadline of a timer of Timers; dcb.Never is none.
func (n *Network) SetTimer(timer int, at dcb.Time) {
	if timer += 2 * len(n.ends); at == dcb.Never {
		n.due.Clear(timer)
		return
	}
	n.due.Set(timer, at)
}

// Deadline returns when the next event happens, dcb.Never if there is none.
func (n *Network) Deadline() dcb.Time {
	_, at, ok := n.due.Next()
	if !ok {
		return dcb.Never
	}
	return at
}

// Run lets everything happen that is due until a time.
func (n *Network) Run(until dcb.Time) {
	for !n.RunSome(until, math.MaxInt) {
	}
}

// RunSome is Run with a bound on the number of events. It reports whether all has happened that is due.
func (n *Network) RunSome(until dcb.Time, events int) bool {
	for ; events > 0; events-- {
		timer, at, ok := n.due.Next()
		if !ok || at > until {
			n.now = max(n.now, until)
			return true
		}
		n.now = max(n.now, at)
		n.last = n.now
		n.events++
		if own := timer - 2*len(n.ends); own >= 0 {
			n.due.Clear(timer)
			n.config.Expired(n.now, own)
			continue
		}
		e := &n.ends[timer/2]
		switch {
		case timer%2 != 0:
			n.arrive(timer, e)
		case e.node.sw != nil:
			e.node.sw.Run(n.now, e.at.Port)
		default:
			e.node.host.Run(n.now)
			e.node.writable()
		}
	}
	return false
}

// RunAhead lets everything happen that is due until a time, as Run does, but leaves the time at that
// of the last event: what is sent next is sent then, or later.
func (n *Network) RunAhead(until dcb.Time) {
	now := n.now
	n.Run(until)
	n.now = max(now, min(n.now, n.last))
}

// writable tells that a host's queue has room, if frames of it have left.
func (k *node) writable() {
	if k.left && k.host.Up() && k.net.config.Writable != nil {
		k.left = false
		k.net.config.Writable(k.net.now, k.index)
	}
}

// arrive hands the first frame that is under way to an end over to its node.
func (n *Network) arrive(timer int, e *end) {
	f := e.flights.Pop()
	if next := e.flights.First(); next != nil {
		n.due.Set(timer, e.arrival(next))
	} else {
		n.due.Clear(timer)
	}
	if e.node.sw != nil {
		e.node.sw.Receive(n.now, e.at.Port, f)
		return
	}
	e.node.host.Receive(n.now, f)
}

// arrival is when a node gets a frame: a switch with the first byte, a host with the last one. A
// frame that pauses counts from its end on.
func (e *end) arrival(f *dcb.Frame) dcb.Time {
	if e.node.host != nil || f.Op != 0 {
		return f.Tail
	}
	return f.At
}

// Transmit implements dcb.Env.
func (k *node) Transmit(now dcb.Time, port int, f *dcb.Frame) {
	n := k.net
	e := &n.ends[int(k.first)+port-1]
	to := &n.ends[e.peer]
	f.At = now + e.delay
	f.Tail = f.At + dcb.Time(f.Len)*e.perByte
	to.flights.Push(f)
	if to.flights.Frames == 1 {
		n.due.Set(2*int(e.peer)+1, to.arrival(f))
	}
	k.left = k.left || f.Op == 0
}

// Schedule implements dcb.Env.
func (k *node) Schedule(port int, at dcb.Time) {
	timer := 2 * (int(k.first) + port - 1)
	if at == dcb.Never {
		k.net.due.Clear(timer)
		return
	}
	k.net.due.Set(timer, at)
}

// Deliver implements dcb.Env.
func (k *node) Deliver(now dcb.Time, port int, f *dcb.Frame) bool {
	return k.net.config.Deliver(now, topology.End{Node: k.index, Port: port}, f)
}

// Dropped implements dcb.Env.
func (k *node) Dropped(now dcb.Time, port int, f *dcb.Frame, d reason.Detail) {
	k.left = true
	if k.net.config.Dropped != nil {
		k.net.config.Dropped(now, topology.End{Node: k.index, Port: port}, f, d)
	}
}

// Send sends a frame from a host, and reports whether the host's queue takes it. The network owns
// the frame then.
func (n *Network) Send(now dcb.Time, node int, f *dcb.Frame) bool {
	n.now = max(n.now, now)
	return n.nodes[node].host.Send(n.now, f)
}

// Resume makes a host offer frames again that Deliver did not take.
func (n *Network) Resume(now dcb.Time, node int) {
	n.now = max(n.now, now)
	n.nodes[node].host.Resume(n.now)
}
