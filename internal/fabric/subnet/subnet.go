// Package subnet joins the nodes of an InfiniBand fabric to a subnet: cables that carry
// frames between their ports, and in each node the agents that answer management packets.
// All nodes of a fabric in one process form one Subnet.
//
// It moves frames and decides which of them end at an agent, and when a cable trains. What a
// node does with a frame is package node's business, what an agent answers package agent's.
//
//	        frames                      frames
//	node ------------> cable: delay ------------> node
//	 |  ^                                          |  ^
//	 v  |  QP0, QP1                                v  |
//	agents ---> Program: managers, umad           agents
//	 node ----> Program: data packets              node
//
// The package does no I/O and reads no clock. A Subnet belongs to one goroutine at a time.
package subnet

import (
	"math/rand/v2"
	"time"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/node"
	"softrdma/internal/fabric/port"
	"softrdma/internal/management/agent"
	"softrdma/internal/management/hardware"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// DefaultCable is the delay of a cable of five metres.
const DefaultCable = 25 * time.Nanosecond

// trainingTime is how long the two ends of a cable take to agree on a link.
const trainingTime = time.Microsecond

// A Program is what runs on a node above its agents: managers, drivers, tools. It is called
// from within Run, and may call Send and SendMAD.
type Program interface {
	// MAD gets a packet of queue pair 0 that is not for the agents or the manager. It keeps
	// nothing of it.
	MAD(now time.Duration, in *agent.Arrival)

	// Packet gets another packet, from LRH to VCRC, with the port by which it came: data, and
	// packets of queue pair 1 that are not for the agents or the administrator. It owns the
	// frame if it returns true. With false the packet stays in the node, and with it its
	// lane, until Resume.
	Packet(now time.Duration, port int, frame []byte) bool

	// Notify tells that a manager changed something at an end port, or that the state of its
	// link may have changed, for which the event is 0.
	Notify(port int, e agent.Event)
}

// A Config is what a subnet is made of.
type Config struct {
	Fabric *topology.Fabric // nodes and cables
	Cable  time.Duration    // delay of each cable; 0 is DefaultCable
	Port   port.Config      // of each port; the number is set
	Node   node.Config      // Hop and StoreAndForward alone

	// FaultSeed is the seed of the random numbers by which faults of cables happen.
	FaultSeed int64

	// Dropped is called for each packet that is dropped. It may be nil.
	Dropped func(at topology.End, d reason.Detail)
}

// A Subnet is nodes, cables and agents.
type Subnet struct {
	nodes
	flights  flights
	training eventqueue.Queue[training]
	changed  []topology.End // whose link state may have changed
	random   *rand.Rand     // of faults; nil until there are some
	loads    []*load
	loadBase uint32                  // number of the first load
	pace     eventqueue.Queue[*load] // when loads send
}

// nodes are the nodes of a subnet, the cables between them, and when each node has something to do.
type nodes struct {
	config  Config
	now     time.Duration
	pool    port.Pool
	members []*member
	due     dueHeap
}

// A member is a node with its agents.
type member struct {
	index    int
	isSwitch bool
	node     *node.Node
	agent    *agent.Agent
	program  Program
	manager  *sm.Manager // nil without one
	inbox    []frameAt   // of queue pairs 0 and 1
	held     []frameAt   // of queue pair 1, which the program did not take
	cables   []cable     // by port
	stalled  uint16      // service levels, see Stall
	loads    []*load     // that it sends

	deadline time.Duration
	place    int // in the heap of deadlines
}

// A cable is one end of a cable.
type cable struct {
	peer   topology.End // Port is 0 without a cable
	trunk  Trunk        // instead of a peer; nil if there is none
	cut    bool
	faults Faults
	epoch  uint32 // counts the links that were up: what is under way on an older one is lost
	link   hardware.Link
}

type frameAt struct {
	port  int
	frame []byte
}

// New makes the subnet of a fabric. All cables train.
func New(c Config) *Subnet {
	if c.Cable == 0 {
		c.Cable = DefaultCable
	}
	s := &Subnet{nodes: nodes{config: c}}
	for i := range c.Fabric.Nodes {
		s.members = append(s.members, s.newMember(i))
	}
	for i, m := range s.members {
		for p := 1; p < len(m.cables); p++ {
			s.train(topology.End{Node: i, Port: p})
		}
	}
	return s
}

func (s *Subnet) newMember(i int) *member {
	t := &s.config.Fabric.Nodes[i]
	m := &member{index: i, isSwitch: t.Kind == topology.Switch, cables: make([]cable, len(t.Ports)), deadline: Never, place: -1}
	nc := node.Config{
		Switch: m.isSwitch, Ports: t.NumPorts(), Port: s.config.Port, Hop: s.config.Node.Hop,
		StoreAndForward: s.config.Node.StoreAndForward, Pool: &s.pool,
		Deliver:  func(port int, frame []byte) bool { return s.deliver(m, port, frame) },
		Violated: func(port int, frame []byte) { s.violated(m, port, frame) },
		Failed:   func(port int, e hardware.LinkError) { m.agent.LinkFailed(s.now, port, e) },
		Changed:  func(port int) { s.changed = append(s.changed, topology.End{Node: i, Port: port}) },
		Writable: func(port int) { s.writable(m, port) },
	}
	if d := s.config.Dropped; d != nil {
		nc.Dropped = func(port int, why reason.Detail) { d(topology.End{Node: i, Port: port}, why) }
	}
	for p := 1; p < len(t.Ports); p++ {
		m.cables[p] = cable{peer: t.Ports[p].Peer, link: linkOf(&t.Ports[p])}
	}
	m.node = node.New(nc)
	ac := agentConfig(t, &s.config.Port)
	ac.Notify = func(port int, e agent.Event) { m.notify(port, e) }
	m.agent = agent.New(ac, m.node)
	return m
}

func (m *member) notify(port int, e agent.Event) {
	if m.program != nil {
		m.program.Notify(port, e)
	}
}

// Attach sets the program of a node; nil detaches it.
func (n *nodes) Attach(node int, p Program) { n.members[node].program = p }

// Program returns the program of a node, nil if there is none.
func (n *nodes) Program(node int) Program { return n.members[node].program }

// Agent returns the agents of a node, which know its LIDs and GIDs.
func (n *nodes) Agent(node int) *agent.Agent { return n.members[node].agent }

// Node returns a node's ports and tables.
func (n *nodes) Node(node int) *node.Node { return n.members[node].node }

// Pool returns the buffers for the frames of Send.
func (n *nodes) Pool() *port.Pool { return &n.pool }

// Send sends a frame of the node's program by a port, from its LRH to its VCRC (see
// port.Config.NoVCRC). If it
// returns true, the subnet owns the frame. With false the node has no room for it.
func (n *nodes) Send(now time.Duration, from topology.End, frame []byte) bool {
	n.now = max(n.now, now)
	m := n.members[from.Node]
	ok := m.node.Send(n.now, from.Port, frame)
	n.schedule(m)
	return ok
}

// Resume makes a node offer packets again that its program did not take.
func (s *Subnet) Resume(now time.Duration, at topology.End) {
	s.now = max(s.now, now)
	m := s.members[at.Node]
	held := m.held
	m.held = nil
	for _, f := range held {
		s.offer(m, f)
	}
	m.node.Resume(s.now, at.Port)
	s.schedule(m)
}

// Wake makes a node look again at its agents, one of which the caller has changed.
func (n *nodes) Wake(node int) { n.schedule(n.members[node]) }

// Deadline is when Run has something to do.
func (s *Subnet) Deadline() time.Duration {
	d := s.flights.next()
	if at, ok := s.training.Next(); ok {
		d = min(d, at)
	}
	if at, ok := s.pace.Next(); ok {
		d = min(d, at)
	}
	if len(s.due) > 0 {
		d = min(d, s.due[0].deadline)
	}
	if len(s.changed) > 0 {
		d = s.now
	}
	return d
}

// Run lets everything happen that is due until a time.
func (s *Subnet) Run(until time.Duration) { s.RunAhead(until, until) }

// RunAhead lets everything happen that is due until a time, which is not before now. What the
// caller does next happens at now, or after the last event if that was later.
func (s *Subnet) RunAhead(now, until time.Duration) {
	for d := s.Deadline(); d <= until; d = s.Deadline() {
		s.now = max(s.now, d)
		s.step()
	}
	s.now = max(s.now, now)
}

// step lets happen what is due now.
func (s *Subnet) step() {
	for {
		t, _, ok := s.training.Pop(s.now)
		if !ok {
			break
		}
		s.trained(t.at, t.epoch)
	}
	for s.flights.next() <= s.now {
		f := s.flights.pop()
		s.land(&f)
	}
	s.feedLoads()
	for len(s.due) > 0 && s.due[0].deadline <= s.now {
		m := s.due[0]
		s.drain(m)
		s.manage(m)
		s.schedule(m)
	}
	for len(s.changed) > 0 {
		e := s.changed[0]
		s.changed = s.changed[1:]
		s.follow(e)
	}
	s.changed = nil
}

// land is the arrival of a frame at the far end of a cable.
func (s *Subnet) land(f *flight) {
	m := s.members[f.to.Node]
	c := &m.cables[f.to.Port]
	if f.epoch != c.epoch {
		s.pool.Recycle(f.frame)
		return
	}
	m.node.Receive(s.now, f.to.Port, f.frame)
	s.schedule(m)
}

// drain puts the frames that leave a node now on their cables.
func (s *Subnet) drain(m *member) {
	for {
		number, frame := m.node.Next(s.now)
		if frame == nil {
			return
		}
		c := &m.cables[number]
		if c.trunk != nil {
			if !c.cut {
				c.trunk.Send(frame)
			}
			s.pool.Recycle(frame)
			continue
		}
		if c.peer.Port == 0 || c.cut || c.faults != (Faults{}) && !s.disturb(c.faults, frame) {
			s.pool.Recycle(frame)
			continue
		}
		s.flights.push(flight{s.now + s.config.Cable, c.peer, c.epoch, frame})
	}
}

// schedule notes when a node wants to be called.
func (n *nodes) schedule(m *member) {
	before := m.deadline
	m.deadline = min(m.node.Deadline(), m.agent.Deadline())
	if m.manager != nil {
		m.deadline = min(m.deadline, m.manager.Deadline())
	}
	if len(m.inbox) > 0 {
		m.deadline = n.now
	}
	switch {
	case m.deadline == before && (m.place >= 0 || before == Never):
	case m.place >= 0 && m.deadline == Never:
		n.due.remove(m)
	case m.place >= 0:
		n.due.fix(m)
	case m.deadline != Never:
		n.due.push(m)
	}
}
