package node

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// DefaultHop is the time from the first byte of a packet in a switch to the first one out of
// it.
const DefaultHop = 100 * time.Nanosecond

// sendQueue is the number of packets that a lane of an adapter holds for its host.
const sendQueue = 16

// A Config is what a node is made with.
type Config struct {
	Switch bool // otherwise an adapter
	Ports  int  // external ones, numbered from 1 on, at most 254
	Port   port.Config

	Hop             time.Duration // DefaultHop if 0; adapters have none
	StoreAndForward bool          // otherwise cut-through: a packet leaves before all of it has arrived

	Pool *port.Pool // can be shared with other nodes of the same goroutine; nil is a new one

	// Deliver gets each packet that ends here: all packets of an adapter, with their port, and
	// those to port 0 of a switch, with the port at which they arrived, 0 if the switch itself
	// sent them. It owns the frame if it returns true. With false the frame stays in the node, with
	// all behind it on its lane, until Resume. Deliver may call Send.
	Deliver func(port int, frame []byte) bool

	// Writable is called when Send takes packets of a port again after it refused one. It may
	// be nil. It may call Send.
	Writable func(port int)

	// Dropped is called for each packet that the node drops. It may be nil.
	Dropped func(port int, d reason.Detail)

	// Violated is called for each packet whose P_Key a port refuses, before it is dropped.
	// The frame stays the node's. It may be nil.
	Violated func(port int, frame []byte)

	// Failed is called when a link that stays up has an error.
	Failed func(port int, e hardware.LinkError)

	// Changed is called when the link state of a port has changed. It may be nil. It calls no
	// method of the node that changes something.
	Changed func(port int)
}

// A Node is a switch or an adapter.
type Node struct {
	config  Config
	env     port.Env
	ports   []*port.Port // from 1 on
	hosts   []*port.Host // from 1 on; of a switch, 0 alone
	now     time.Duration
	refused []bool // ports for which Send refused a packet

	zero     zeroPort
	tables   tables
	lanes    [][]uint64 // [out][in]: lanes of the 16 service levels, 4 bits each; nil before a manager sets them
	lifeTime time.Duration
}

// A zeroPort is port 0 of a switch, which has no link.
type zeroPort struct {
	config     hardware.PortConfig
	counters   hardware.Counters
	partitions []uint16
}

// New returns a node whose links are down.
func New(c Config) *Node {
	if c.Pool == nil {
		c.Pool = new(port.Pool)
	}
	if c.Hop == 0 {
		c.Hop = DefaultHop
	}
	n := &Node{config: c, ports: make([]*port.Port, c.Ports+1), hosts: make([]*port.Host, c.Ports+1),
		refused: make([]bool, c.Ports+1), lanes: make([][]uint64, c.Ports+1), lifeTime: hardware.Unlimited}
	n.env = port.Env{Pool: c.Pool, Dropped: c.Dropped, Violated: c.Violated, Failed: c.Failed, Changed: c.Changed}
	n.tables.init(c.Ports)
	n.zero.partitions = []uint16{smp.DefaultPKey}
	for i := 1; i <= c.Ports; i++ {
		pc := c.Port
		pc.Number = i
		n.ports[i] = port.New(&n.env, pc)
		if !c.Switch {
			n.hosts[i] = port.NewHost(&n.env, i, c.Deliver)
		}
	}
	if c.Switch {
		n.hosts[0] = port.NewHost(&n.env, 0, c.Deliver)
	}
	return n
}

// Ports returns the number of external ports.
func (n *Node) Ports() int { return n.config.Ports }

// Pool returns the buffers for frames that Receive and Send take.
func (n *Node) Pool() *port.Pool { return n.config.Pool }

// Deadline returns when Next has something to do.
func (n *Node) Deadline() time.Duration { return n.env.Schedule.Deadline() }

// Next delivers what is due and returns the next frame that leaves now, which the caller
// owns, with its port. The first byte is on the link now. The caller calls Next until it
// returns nil, after each other call and at Deadline.
func (n *Node) Next(now time.Duration) (number int, frame []byte) {
	n.now = now
	for n.env.Schedule.Deadline() <= now {
		t := n.env.Schedule.Next()
		if t.Host {
			n.hosts[t.Port].Run(now)
			continue
		}
		frame = n.ports[t.Port].Next(now)
		if frame == nil {
			continue
		}
		if n.refused[t.Port] && len(frame) > ib.FlowControlLen {
			n.refused[t.Port] = false
			if n.config.Writable != nil {
				n.config.Writable(t.Port)
			}
		}
		return t.Port, frame
	}
	return 0, nil
}

// Receive takes a frame whose first byte arrives at a port now. The node owns it.
func (n *Node) Receive(now time.Duration, number int, frame []byte) {
	n.now = now
	p := n.ports[number]
	k := p.Receive(now, frame)
	switch {
	case k == nil:
	case n.config.Switch:
		n.forward(now, number, k)
	default:
		n.arrive(now, number, k)
	}
}

// arrive takes a packet at an adapter.
func (n *Node) arrive(now time.Duration, number int, k *port.Packet) {
	if c := n.ports[number].Config(); k.LRH.VL != ib.ManagementVL && !k.LRH.DLID.Multicast() && !owns(c, k.LRH.DLID) {
		n.drop(now, number, k, reason.Detail{Reason: reason.FabricForeign, Expected: uint64(c.LID), Found: uint64(k.LRH.DLID)})
		return
	}
	k.Due = k.Tail
	n.hosts[number].Push(now, k)
}

// owns reports whether a LID is one of a port: its LID, with any LMC lower bits (IBTA
// 7.11.1).
func owns(c *hardware.PortConfig, l ib.LID) bool {
	return l == ib.PermissiveLID || c.LID != 0 && uint16(l)>>c.LMC == c.LID>>c.LMC
}

// Resume makes the node offer packets again that Deliver did not take.
func (n *Node) Resume(now time.Duration, number int) {
	n.now = now
	n.hosts[number].Resume(now)
}

// Send sends a frame of the node itself, from its LRH to its VCRC. If it returns true, the
// node owns the frame, and drops one whose LRH has another length.
//
// An adapter sends by the port, on the lane of the service level, or on lane 15 if the LRH
// says so. A switch sends by the port, or as its tables say if that is 0. An adapter's full
// lane refuses the packet, until Writable.
func (n *Node) Send(now time.Duration, number int, frame []byte) bool {
	n.now = now
	var h ib.LRH
	if h.Parse(frame) && !n.config.Switch && h.VL != ib.ManagementVL && n.ports[number].Queued(n.lane(0, number, h.SL)) >= sendQueue {
		n.refused[number] = true
		return false
	}
	k, ok := n.env.Pool.Own(frame)
	if !ok {
		if n.config.Dropped != nil {
			n.config.Dropped(number, reason.Detail{Reason: reason.FabricLength, Expected: 4*uint64(h.Words) + ib.VCRCLen, Found: uint64(len(frame))})
		}
		return true
	}
	k.Due, k.Tail = now, now
	switch {
	case n.config.Switch && number == 0:
		n.forward(now, 0, k)
	case !n.config.Switch && owns(n.ports[number].Config(), h.DLID) && h.DLID != ib.PermissiveLID:
		n.hosts[number].Push(now, k)
	default:
		n.out(now, 0, number, k)
	}
	return true
}

// Connect is the end of link training at a port. Both ends of the link get the same.
func (n *Node) Connect(now time.Duration, number int, l hardware.Link) {
	n.now = now
	n.ports[number].Connect(now, l)
}

// Disconnect takes the link of a port down.
func (n *Node) Disconnect(now time.Duration, number int) {
	n.now = now
	n.ports[number].Disconnect(now)
}

// PortConfig returns what a manager has set of a port, with the width and speed that it has
// enabled.
func (n *Node) PortConfig(number int) *hardware.PortConfig { return n.configOf(number) }

func (n *Node) drop(now time.Duration, number int, k *port.Packet, d reason.Detail) {
	if n.config.Dropped != nil {
		n.config.Dropped(number, d)
	}
	n.env.Pool.Free(now, k)
}
