package sm

import (
	"container/heap"
	"testing"
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A rig is a fabric of agents on virtual time. Its links carry management
// packets only.
type rig struct {
	t        testing.TB
	f        *topology.Fabric
	now      time.Duration
	nodes    []*simNode
	managers map[int]*Manager // by node; at port 1 of an adapter, port 0 of a switch
	events   events
	sequence int
	sent     int
	lose     func() bool
	watch    func(p *smp.Packet)
	spoil    func(b *[mad.Len]byte) // changes what managers receive
	general  [][mad.Len]byte        // what administrators sent
}

// linkDelay is the time that a packet takes to the next node.
const linkDelay = time.Microsecond

// A simNode is a node whose tables are plain data.
type simNode struct {
	agent     *agent.Agent
	links     []hardware.Link
	configs   []hardware.PortConfig
	linear    map[int]smp.LinearForwarding
	lanes     map[[2]int]smp.SLtoVL
	weights   map[[2]int]smp.VLArbitration
	keys      map[[2]int]smp.PKeyTable
	multicast map[[2]int]smp.MulticastForwarding
	wakes     time.Duration // when the agent's trap is scheduled
	unplugged bool          // answers nothing
}

func (n *simNode) Link(p int) hardware.Link { return n.links[p] }
func (n *simNode) SetLink(p int, c hardware.LinkCommand) bool {
	l := &n.links[p]
	switch {
	case c == hardware.LinkArm && l.State == smp.PortInit:
		l.State = smp.PortArmed
	case c == hardware.LinkActivate && l.State == smp.PortArmed:
		l.State = smp.PortActive
	default:
		return false
	}
	return true
}
func (n *simNode) Configure(p int, c *hardware.PortConfig)          { n.configs[p] = *c }
func (n *simNode) ConfigureSwitch(*hardware.SwitchConfig)           {}
func (n *simNode) SLtoVL(in, out int) smp.SLtoVL                    { return n.lanes[[2]int{in, out}] }
func (n *simNode) SetSLtoVL(in, out int, t *smp.SLtoVL)             { n.lanes[[2]int{in, out}] = *t }
func (n *simNode) Arbitration(p, half int) smp.VLArbitration        { return n.weights[[2]int{p, half}] }
func (n *simNode) SetArbitration(p, half int, t *smp.VLArbitration) { n.weights[[2]int{p, half}] = *t }
func (n *simNode) Partitions(p, block int) smp.PKeyTable            { return n.keys[[2]int{p, block}] }
func (n *simNode) SetPartitions(p, block int, t *smp.PKeyTable)     { n.keys[[2]int{p, block}] = *t }
func (n *simNode) Forwarding(block int) smp.LinearForwarding        { return n.linear[block] }
func (n *simNode) SetForwarding(block int, t *smp.LinearForwarding) { n.linear[block] = *t }
func (n *simNode) Multicast(block, position int) smp.MulticastForwarding {
	return n.multicast[[2]int{block, position}]
}
func (n *simNode) SetMulticast(block, position int, t *smp.MulticastForwarding) {
	n.multicast[[2]int{block, position}] = *t
}
func (n *simNode) Counters(int) *hardware.Counters { return new(hardware.Counters) }

// out is the port for a LID, or NoPort.
func (n *simNode) out(lid uint16) int {
	b, ok := n.linear[int(lid)/64]
	if !ok {
		return smp.NoPort
	}
	return int(b[lid%64])
}

// An event happens at a time.
type event struct {
	at       time.Duration
	sequence int
	do       func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].sequence < e[j].sequence
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (r *rig) after(d time.Duration, do func()) {
	r.sequence++
	heap.Push(&r.events, event{r.now + d, r.sequence, do})
}

// newRig builds a fabric from a text of topology.Generate. All links are trained.
func newRig(t testing.TB, text string) *rig {
	t.Helper()
	f, err := topology.Generate(text)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, f: f, managers: make(map[int]*Manager), lose: func() bool { return false }}
	for i := range f.Nodes {
		r.nodes = append(r.nodes, newSimNode(&f.Nodes[i]))
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Ports[p].Connected() {
				r.train(topology.End{Node: i, Port: p}, true)
			}
		}
	}
	return r
}

func newSimNode(n *topology.Node) *simNode {
	s := &simNode{links: make([]hardware.Link, len(n.Ports)), configs: make([]hardware.PortConfig, len(n.Ports)), linear: map[int]smp.LinearForwarding{},
		lanes: map[[2]int]smp.SLtoVL{}, weights: map[[2]int]smp.VLArbitration{}, keys: map[[2]int]smp.PKeyTable{}, multicast: map[[2]int]smp.MulticastForwarding{}, wakes: Never}
	for i := range s.links {
		s.links[i] = hardware.Link{State: smp.PortDown, Physical: smp.PhysicalPolling}
	}
	c := agent.Config{Type: smp.NodeType(n.Kind), NumPorts: n.NumPorts(), Description: n.Description, SystemImageGUID: n.GUID, NodeGUID: n.GUID,
		PortGUIDs: []uint64{n.GUID}, Partitions: 32, Width: smp.Width1x | smp.Width4x, Speed: 7, ExtSpeed: smp.ExtSpeedFDR | smp.ExtSpeedEDR, MTU: 5,
		VLs: smp.VL0to7, Arbitration: 8, GUIDs: 1}
	if n.Kind == topology.Switch {
		c.LinearCap, c.MulticastCap, c.ExternalPartitions = 0xc000, 1024, 32
	} else {
		c.PortGUIDs = nil
		for p := 1; p <= n.NumPorts(); p++ {
			c.PortGUIDs = append(c.PortGUIDs, n.Ports[p].GUID)
		}
	}
	s.agent = agent.New(&c, s)
	return s
}

// train changes one end of a link, and tells the agent.
func (r *rig) train(e topology.End, up bool) {
	n := r.nodes[e.Node]
	n.links[e.Port] = hardware.Link{State: smp.PortDown, Physical: smp.PhysicalPolling}
	if up {
		n.links[e.Port] = hardware.Link{State: smp.PortInit, Physical: smp.PhysicalLinkUp, Width: smp.Width4x, Speed: smp.SpeedQDR, ExtSpeed: smp.ExtSpeedEDR}
	}
	n.agent.LinkChanged(r.now, e.Port)
	r.schedule(e.Node)
}

// link brings both ends of a link up or down.
func (r *rig) link(e topology.End, up bool) {
	peer := r.f.Port(e).Peer
	r.train(e, up)
	r.train(peer, up)
}

// manage starts a manager at a node.
func (r *rig) manage(node int, c Config) *Manager {
	first, _ := r.f.Nodes[node].EndPorts()
	c.GUID = r.f.Nodes[node].Ports[first].GUID
	m := New(&c)
	r.managers[node] = m
	r.nodes[node].agent.SetCapability(r.now, first, smp.CapSM, true)
	r.schedule(node)
	return m
}

// stop ends the manager of a node.
func (r *rig) stop(node int) {
	first, _ := r.f.Nodes[node].EndPorts()
	delete(r.managers, node)
	r.nodes[node].agent.SetCapability(r.now, first, smp.CapSM, false)
}

// schedule makes the agent of a node send its traps in time.
func (r *rig) schedule(node int) {
	n := r.nodes[node]
	d := n.agent.Deadline()
	if d >= n.wakes {
		return
	}
	n.wakes = d
	r.after(max(d-r.now, 0), func() {
		n.wakes = Never
		for {
			var out agent.Departure
			o, ok := n.agent.Trap(r.now, &out)
			if !ok {
				break
			}
			r.carry(node, &agent.Arrival{SLID: out.SLID, DLID: out.DLID}, o, &out)
		}
		r.schedule(node)
	})
}

// carry brings a packet of a node to where its outcome says.
func (r *rig) carry(node int, in *agent.Arrival, o agent.Outcome, out *agent.Departure) {
	switch o {
	case agent.Local:
		if m := r.managers[node]; m != nil {
			b := out.MAD
			if r.spoil != nil {
				r.spoil(&b)
			}
			m.Receive(r.now, &Arrival{SLID: in.SLID, SL: in.SL, MAD: &b})
		}
	case agent.Send:
		r.send(node, *out, 0)
	}
}

// send moves a packet to the next node. A table with a loop makes packets too old at last.
func (r *rig) send(node int, d agent.Departure, hops int) {
	n := r.nodes[node]
	port := d.Port
	if port == 0 {
		port = n.out(d.DLID)
	}
	if port == 0 || port >= len(n.links) || n.links[port].State < smp.PortInit || hops > len(r.nodes) || r.lose() {
		return
	}
	r.sent++
	to := r.f.Nodes[node].Ports[port].Peer
	r.after(linkDelay, func() { r.arrive(to, d, hops) })
}

// arrive forwards a packet that is routed by LID, or gives it to the agent.
func (r *rig) arrive(at topology.End, d agent.Departure, hops int) {
	n := r.nodes[at.Node]
	if n.unplugged {
		return
	}
	if r.f.Nodes[at.Node].Kind == topology.Switch && d.DLID != smp.PermissiveLID && d.DLID != n.configs[0].LID {
		d.Port = 0
		r.send(at.Node, d, hops+1)
		return
	}
	in := agent.Arrival{Port: at.Port, SLID: d.SLID, DLID: d.DLID, SL: d.SL, MAD: &d.MAD}
	var out agent.Departure
	o := n.agent.Receive(r.now, &in, &out)
	r.carry(at.Node, &in, o, &out)
	r.schedule(at.Node)
}

// pump lets a manager send what it has.
func (r *rig) pump(node int, m *Manager) {
	first, _ := r.f.Nodes[node].EndPorts()
	for {
		var d Departure
		if !m.Next(r.now, &d) {
			return
		}
		if d.QPN != 0 {
			r.general = append(r.general, d.MAD)
			continue
		}
		if r.watch != nil {
			var p smp.Packet
			p.Parse(&d.MAD)
			r.watch(&p)
		}
		in := agent.Arrival{Port: first, DLID: d.DLID, SL: d.SL, MAD: &d.MAD}
		var out agent.Departure
		o := r.nodes[node].agent.Originate(r.now, &in, &out)
		if o == agent.Discard && out.Reason.Reason != 0 && r.spoil == nil {
			r.t.Fatalf("%s discards its manager's packet: %v", r.f.Nodes[node].Description, out.Reason)
		}
		r.carry(node, &in, o, &out)
		r.schedule(node)
	}
}

// run lets time pass until a condition holds, for an hour at most.
func (r *rig) run(until func() bool) {
	r.t.Helper()
	for limit := r.now + time.Hour; r.now < limit; {
		for node := range r.nodes {
			if m := r.managers[node]; m != nil {
				r.pump(node, m)
			}
			if len(r.managers) == 0 {
				break
			}
		}
		if until() {
			return
		}
		next := Never
		if len(r.events) > 0 {
			next = r.events[0].at
		}
		for _, m := range r.managers {
			next = min(next, m.Deadline())
		}
		if next == Never {
			r.t.Fatal("nothing is left to happen")
		}
		r.now = max(r.now, next)
		for len(r.events) > 0 && r.events[0].at <= r.now {
			heap.Pop(&r.events).(event).do()
		}
	}
	r.t.Fatal("an hour passed")
}

// settle lets time pass until a manager is master and has nothing to do.
func (r *rig) settle(m *Manager) {
	r.t.Helper()
	r.run(func() bool {
		return m.Status().State == smp.SMMaster && m.Status().Sweeps > 0 && m.Idle() && len(r.events) == 0
	})
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now + d
	done := false
	r.after(d, func() { done = true })
	r.run(func() bool { return done })
	r.now = max(r.now, end)
}

var _ hardware.Node = (*simNode)(nil)
