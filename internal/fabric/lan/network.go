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
// Events are in the order of their times. Those of a node at the same time are in the order of its
// ports, arrivals after departures, and its timer comes last. Nodes meet by frames alone, which take
// the delay of a cable at least, so the order among nodes does not matter. A network can therefore be
// divided into parts with event queues of their own, on which several goroutines work.
//
// The package does no I/O and reads no clock. A network belongs to one goroutine at a time, except that
// Run lets others help.
package lan

import (
	"cmp"
	"fmt"
	"net/netip"

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

// DefaultGrain is the number of events that take as long as waking a goroutine, or some times that.
const DefaultGrain = 400

// A Link is what the two ends of a cable are made with.
type Link struct {
	Port  dcb.PortConfig
	Cable dcb.Time // delay; DefaultCable if 0, see Config

	// Headroom is the bytes of each lossless priority of the ports at the link: those that it needs
	// (see dcb.Headroom) if 0, none if negative.
	Headroom int

	Storm bridge.Storm // of the ports of switches at the link
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

	// Prefix is where the IPv4 addresses of hosts are; DefaultPrefix if it is not valid. See CheckPrefix.
	Prefix netip.Prefix

	// IPv6 gives the hosts addresses of IPv6 as well, see IPv6, and the switches routes to them.
	IPv6 bool

	// Bridged makes the network one broadcast domain beside its routes: all switches know where the MAC
	// address of each host is, over the same paths as routes, and flood frames to groups along a tree. It
	// is what a controller would set. Without it links in a circle multiply flooded frames.
	Bridged bool

	// Deliver gets each frame that ends at a host, or at a switch itself. See dcb.Env.
	Deliver func(now dcb.Time, at topology.End, f *dcb.Frame) bool

	// Writable is called when a frame of a host has left its queue, and when the host's link comes
	// up. It may call Send. It may be nil.
	Writable func(now dcb.Time, node int)

	// Dropped is called for each frame that is dropped. It may be nil.
	Dropped func(now dcb.Time, at topology.End, f *dcb.Frame, d reason.Detail)

	// Pausing is called for each frame that pauses, as the port of a host gets or sends it. The frame
	// stays the network's. It may be nil.
	Pausing func(now dcb.Time, host int, f *dcb.Frame)

	// Expired is called when the timer of a node is due, which has no deadline then. It may be nil if
	// no timer is set.
	Expired func(now dcb.Time, node int)

	// Parts is the number of parts into which the network is divided, at most; 1 if 0. What happens is
	// the same with any number. With several parts the functions above are called for different nodes
	// at the same time, and may use what belongs to the part of the node only.
	Parts int

	// Workers is the number of goroutines that work on parts, at most; 1 if 0. They work together if the
	// last window of time (see part) had Grain events or more; DefaultGrain if 0.
	Workers, Grain int
}

// A Network is nodes and cables.
type Network struct {
	config Config
	parts  []*part
	ahead  dcb.Time // for which parts do not notice each other; see part
	order  []*part  // parts with something to do, for a window of time
	work   int      // events in the last one
	nodes  []node
	ends   []end    // by part
	home   []dcb.IP // of each host
	cuts   int      // ends whose cable is away
	extras *Extras  // nil without
	trunks *Trunks  // the same

	depend map[uint8]*Dependencies // by priorities, with the present routes
}

// A node is a switch or a host. It is the Env of its machine.
type node struct {
	net   *Network
	part  *part
	index int
	first int32 // of its ends
	timer int32 // in the part
	sw    *bridge.Switch
	host  *station.Port
	left  bool // frames have left the host's queue since Writable
}

// An end is an end of a cable. It has two timers of its part: 2i for the port and 2i+1 for what arrives
// at it, where i is its number in the part.
type end struct {
	at      topology.End
	node    *node
	peer    int32 // -1 without a cable
	cut     bool
	link    *link
	delay   dcb.Time
	perByte dcb.Time
	flights dcb.List  // on their way to this end
	foreign *dcb.List // the same, from another part, in the current window of time; nil before the first
	lost    uint64    // frames that were under way when the cable was cut
	faults  *Faults   // of the cable, nil without
	errors  uint64    // frames that they took
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
	n.config.Grain = cmp.Or(c.Grain, DefaultGrain)
	n.divide()
	n.links()
	if n.ahead = least(n.ends); n.ahead <= 0 {
		c.Parts = 1
		return New(c)
	}
	for i := range n.nodes {
		n.nodes[i].make()
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

// divide makes the nodes and the ends of their cables, those of each part together.
func (n *Network) divide() {
	f := n.config.Fabric
	of, parts := divide(f, n.config.Parts)
	total := 0
	for i := range f.Nodes {
		total += f.Nodes[i].NumPorts()
	}
	n.ends = make([]end, 0, total)
	for i := range parts {
		p := &part{net: n, number: i, first: int32(len(n.ends))}
		n.parts = append(n.parts, p)
		for k := range f.Nodes {
			if int(of[k]) != i {
				continue
			}
			n.nodes[k] = node{net: n, part: p, index: k, first: int32(len(n.ends))}
			for port := 1; port <= f.Nodes[k].NumPorts(); port++ {
				n.ends = append(n.ends, end{at: topology.End{Node: k, Port: port}, node: &n.nodes[k], peer: -1})
			}
			p.nodes = append(p.nodes, int32(k))
		}
		p.ends = n.ends[p.first:len(n.ends):len(n.ends)]
		p.due.Add(2*len(p.ends) + len(p.nodes))
		for k, number := range p.nodes {
			n.nodes[number].timer = int32(2*len(p.ends) + k)
		}
	}
	for i := range n.ends {
		e := &n.ends[i]
		if peer := f.Port(e.at).Peer; peer.Port != 0 {
			e.peer = n.nodes[peer.Node].first + int32(peer.Port) - 1
		}
	}
}

// least returns the shortest delay of a cable between two parts, dcb.Never if there is none.
func least(ends []end) dcb.Time {
	least := dcb.Never
	for i := range ends {
		if e := &ends[i]; e.peer >= 0 && ends[e.peer].node.part != e.node.part {
			least = min(least, e.delay)
		}
	}
	return least
}

// A link is a Link with the headroom of its ports, for cells of a size.
type link struct {
	Link
	room, cell int
}

// links gives each end its link. Ends with equal ones share it.
func (n *Network) links() {
	shared := make(map[Link]*link)
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
			e.link = &link{Link: l}
			shared[l] = e.link
		}
		e.delay, e.perByte = l.Cable, l.Port.Speed.PerByte()
	}
}

// make makes the machine of the node.
func (k *node) make() {
	n := k.net
	t := &n.config.Fabric.Nodes[k.index]
	if t.Kind != topology.Switch {
		c, e := n.config.Host, &n.ends[k.first]
		c.Link = &e.link.Port
		if c.Headroom == 0 {
			c.Headroom = e.room(bridge.DefaultCell)
		}
		k.host = station.New(&c, k, &k.part.pool, n.MAC(k.index))
		return
	}
	c := n.config.Switch
	c.Address, c.Seed = n.MAC(k.index), dcb.Mix(n.config.Seed^uint64(k.index+1)<<32)
	c.Ports = make([]bridge.PortConfig, t.NumPorts()+1)
	for p := 1; p <= t.NumPorts(); p++ {
		e := &n.ends[int(k.first)+p-1]
		c.Ports[p] = bridge.PortConfig{Link: &e.link.Port, Headroom: e.room(cmp.Or(c.Buffer.Cell, bridge.DefaultCell)), Storm: e.link.Storm}
	}
	k.sw = bridge.New(c, k, &k.part.pool)
}

// CheckBuffers refuses a network with a switch whose buffer has nothing left beside the reserves and the
// headroom of its ports: it would drop all lossy frames.
func CheckBuffers(n *Network) error {
	for i := range n.nodes {
		if sw := n.nodes[i].sw; sw != nil {
			if booked, size := sw.Booked(); booked >= size {
				return fmt.Errorf("%s: expected a buffer of more than the %d bytes of headroom and reserves of its ports, found %d", n.config.Fabric.Names()[i], booked, size)
			}
		}
	}
	return nil
}

// room returns the headroom of a port at the link of an end, whose buffer has cells.
func (e *end) room(cell int) int {
	l := e.link
	switch {
	case l.Headroom != 0:
		return max(l.Headroom, 0)
	case l.cell != cell: // all ports at the link have the same, and it takes long to compute
		l.room, l.cell = dcb.Headroom(&l.Port, cell, dcb.MinFrame, l.Cable, l.Port.Response), cell
	}
	return l.room
}

// Pool returns the pool for the frames of Send in a network of one part.
func (n *Network) Pool() *dcb.Pool { return &n.parts[0].pool }

// PoolOf returns the pool for the frames that a node sends, and those that Deliver gets there.
func (n *Network) PoolOf(node int) *dcb.Pool { return &n.nodes[node].part.pool }

// InUse returns the number of frames that are in use.
func (n *Network) InUse() (frames int) {
	for _, p := range n.parts {
		frames += p.pool.Used()
	}
	return frames
}

// Nodes returns the number of nodes, which have numbers from 0 on.
func (n *Network) Nodes() int { return len(n.nodes) }

// Switch returns the switch of a node, nil if it is a host.
func (n *Network) Switch(node int) *bridge.Switch { return n.nodes[node].sw }

// Host returns the port of a host, nil if the node is a switch.
func (n *Network) Host(node int) *station.Port { return n.nodes[node].host }

// SetTimer changes the deadline of the timer of a node; dcb.Never is none. It is due in the order of
// time together with the events of the network.
func (n *Network) SetTimer(node int, at dcb.Time) {
	k := &n.nodes[node]
	k.part.set(int(k.timer), at)
}

// writable tells that a host's queue has room, if frames of it have left.
func (k *node) writable() {
	if !k.left || !k.host.Up() {
		return
	}
	k.left = false
	if k.net.config.Writable != nil {
		k.net.config.Writable(k.part.now, k.index)
	}
	if k.net.extras != nil {
		k.net.extras.resume(k.index)
	}
}

// arrival is when a node gets a frame: a switch with the first byte, a host with the last one. A
// frame that pauses counts from its end on.
func (e *end) arrival(f *dcb.Frame) dcb.Time {
	if e.node.host != nil || f.Op != 0 {
		return f.Tail
	}
	return f.At
}

// advance notes that it is later. A caller may be late: what is due before happens first, so that a pause
// does not end while the frame that repeats it is due.
func (p *part) advance(now dcb.Time) { p.now = max(p.now, min(now, p.next())) }

// Send sends a frame from a host, and reports whether the host's queue takes it. The network owns
// the frame then. If other events are due before now, the frame is sent at the time of the first one.
func (n *Network) Send(now dcb.Time, node int, f *dcb.Frame) bool {
	k := &n.nodes[node]
	k.part.advance(now)
	return k.host.Send(k.part.now, f)
}

// Resume makes a host offer frames again that Deliver did not take.
func (n *Network) Resume(now dcb.Time, node int) {
	k := &n.nodes[node]
	k.part.advance(now)
	k.host.Resume(k.part.now)
}
