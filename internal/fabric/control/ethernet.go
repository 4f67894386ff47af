package control

import (
	"encoding/json"
	"fmt"
	"time"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// An Attached tells which process is attached to a port, 0 if there is none.
type Attached func(at topology.End) (pid int)

// AnswerEthernet answers a question about an Ethernet. Requests that are about what only an InfiniBand
// subnet has are refused.
func AnswerEthernet(now time.Duration, n *lan.Network, attached Attached, question []byte) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(question, &r); err != nil {
		return nil, fmt.Errorf("request of a command: %w", err)
	}
	if _, err := r.verb(); err != nil {
		return nil, err
	}
	do := ethernetVerbs[r.Verb]
	if do == nil {
		return nil, reason.NotSupported("%s: expected an InfiniBand fabric, found an Ethernet", r.Verb)
	}
	f := n.Fabric()
	noTrunk := func(topology.End) bool { return false }
	c := &etherView{Network: n, directory: directory{f, f.Names(), noTrunk}, attached: attached}
	reply := Reply{Now: now}
	if err := do(c, &r, &reply); err != nil {
		return nil, err
	}
	return json.Marshal(&reply)
}

var ethernetVerbs = map[string]func(c *etherView, r *Request, reply *Reply) error{
	VerbStatus:   (*etherView).status,
	VerbPorts:    (*etherView).ports,
	VerbLinks:    (*etherView).links,
	VerbCounters: (*etherView).counters,
	VerbDeadlock: (*etherView).deadlock,
	VerbFaults:   (*etherView).faults,
	VerbLinkDown: (*etherView).linkDown,
	VerbLinkUp:   (*etherView).linkUp,
	VerbFail:     (*etherView).fail,
	VerbRepair:   (*etherView).repair,
}

// An etherView is an Ethernet while it answers one request.
type etherView struct {
	*lan.Network
	directory
	attached Attached
}

func (c *etherView) status(_ *Request, reply *Reply) error {
	st := &Status{Network: Ethernet, Links: make(map[string]int)}
	for i := range c.fabric.Nodes {
		t := &c.fabric.Nodes[i]
		n := Node{Name: c.names[i], Kind: "host", GUID: t.GUID, MAC: lan.MAC(i).MAC().String(), Ports: t.NumPorts(), LIDs: []uint16{}}
		if c.isSwitch(i) {
			n.Kind = "switch"
			st.Switches++
		} else {
			st.Adapters++
			if ip := c.IP(i); ip != (dcb.IP{}) {
				n.IP = ip.Addr().String()
			}
		}
		for _, e := range c.portsOf(i) {
			n.Cables++
			if c.Port(e).Up() {
				n.Active++
			}
		}
		st.Nodes = append(st.Nodes, n)
	}
	for _, e := range c.cables() {
		st.Links[c.linkState(e)]++
	}
	reply.Status = st
	return nil
}

func (c *etherView) linkState(e topology.End) string {
	switch {
	case c.IsCut(e):
		return LinkCut
	case !c.Port(e).Up():
		return LinkDown
	}
	return LinkActive
}

func (c *etherView) ports(_ *Request, reply *Reply) error {
	for i := range c.fabric.Nodes {
		if c.isSwitch(i) {
			continue
		}
		for _, e := range c.portsOf(i) {
			p := c.Port(e)
			reply.Ports = append(reply.Ports, Port{
				Node: c.names[i], Port: e.Port, GUID: c.fabric.Port(e).GUID, State: c.linkState(e), IP: c.IP(i).Addr().String(),
				MTU: p.MTU() - ethernet.HeaderLen - ethernet.CheckLen, Speed: speedText(p), Process: c.attached(e),
			})
		}
	}
	return nil
}

func speedText(p *dcb.Port) string { return fmt.Sprintf("%dG", p.Config().Speed/dcb.Gbit) }

func (c *etherView) links(r *Request, reply *Reply) error { return c.list(r, reply, c.link) }

func (c *etherView) link(e topology.End) Link {
	p := c.Port(e)
	return Link{State: c.linkState(e), Speed: speedText(p), Rate: uint64(p.Config().Speed), Ends: [2]LinkEnd{c.linkEnd(e), c.linkEnd(c.fabric.Port(e).Peer)}}
}

// linkEnd describes a port. What it counts is the sum of its priorities.
func (c *etherView) linkEnd(e topology.End) LinkEnd {
	p := c.Port(e)
	end := LinkEnd{Name: c.endPortName(e), Node: c.names[e.Node], Port: e.Port, Switch: c.isSwitch(e.Node), MTU: p.MTU() - ethernet.HeaderLen - ethernet.CheckLen}
	for i := range uint8(ethernet.Priorities) {
		k := p.Counters(i)
		end.Bytes += k.Sent.Bytes
		end.Packets += k.Sent.Frames
		end.Wait += k.Paused.Duration()
		end.Discards += k.Dropped
	}
	return end
}

func (c *etherView) counters(r *Request, reply *Reply) error { return c.count(r, reply, c.counted) }

// counted is what a port has counted.
func (c *etherView) counted(e topology.End) []Counter {
	values := []Counter{}
	for i := range uint8(ethernet.Priorities) {
		k := c.Port(e).Counters(i)
		for _, v := range []Counter{
			{"frames sent", k.Sent.Frames}, {"bytes sent", k.Sent.Bytes}, {"frames received", k.Received.Frames}, {"bytes received", k.Received.Bytes},
			{"pauses sent", k.PausesSent}, {"pauses received", k.PausesReceived}, {"paused ns", uint64(k.Paused.Duration())},
			{"marked", k.Marked}, {"dropped", k.Dropped}, {"storms", k.Storms}, {"longest queue", uint64(k.Peak)},
		} {
			if v.Value != 0 {
				values = append(values, Counter{fmt.Sprintf("priority %d %s", i, v.Name), v.Value})
			}
		}
	}
	for why := reason.EthernetLength; why <= reason.EthernetForeign; why++ {
		if n := c.dropped(e, why); n != 0 {
			values = append(values, Counter{why.String(), n})
		}
	}
	return values
}

// dropped is how many frames a port has dropped for a reason.
func (c *etherView) dropped(e topology.End, why reason.Reason) uint64 {
	if h := c.Host(e.Node); h != nil {
		return h.Dropped(why)
	}
	return c.Switch(e.Node).Port(e.Port).Dropped(why)
}

func (c *etherView) deadlock(r *Request, reply *Reply) error {
	still := r.Still
	if still <= 0 {
		still = defaultStill
	}
	d := &Deadlock{Still: []Lane{}, Deadlock: []Channel{}}
	s := c.Standstill(dcb.FromDuration(still))
	for i := range s.Waits {
		w := &s.Waits[i]
		l := Lane{
			Channel: c.channel(w.Channel), To: c.endPortName(c.fabric.Port(w.End).Peer), Time: (c.Network.Now() - w.Since).Duration(),
			Packets: w.Frames, Cause: w.Cause, Waits: []Channel{},
		}
		for _, to := range w.Next {
			l.Waits = append(l.Waits, c.channel(to))
		}
		d.Still = append(d.Still, l)
	}
	for _, at := range s.Deadlock {
		d.Deadlock = append(d.Deadlock, c.channel(at))
	}
	reply.Deadlock = d
	return nil
}

func (c *etherView) channel(at lan.Channel) Channel {
	return Channel{Node: c.names[at.End.Node], Port: at.End.Port, VL: at.Priority}
}

// faults answers that no cable has faults.
func (*etherView) faults(r *Request, reply *Reply) error {
	if r.Faults != nil {
		return reason.NotSupported("faults of cables: expected an InfiniBand fabric, found an Ethernet")
	}
	reply.Links = []Link{}
	return nil
}

func (c *etherView) linkDown(r *Request, reply *Reply) error { return c.change(r.Args, reply, c.Cut) }
func (c *etherView) linkUp(r *Request, reply *Reply) error   { return c.change(r.Args, reply, c.Repair) }

// change changes cables, and the routes after them.
func (c *etherView) change(args []string, reply *Reply, do func(topology.End)) error {
	var changed []topology.End
	if err := each(args, c.findCable, func(e topology.End) { changed = append(changed, e) }); err != nil {
		return err
	}
	c.apply(changed, reply, do)
	return nil
}

func (c *etherView) apply(changed []topology.End, reply *Reply, do func(topology.End)) {
	for _, e := range changed {
		do(e)
	}
	c.Reroute()
	reply.Links = []Link{}
	for _, e := range changed {
		reply.Links = append(reply.Links, c.link(e))
	}
}

func (c *etherView) fail(r *Request, reply *Reply) error { return c.changeNodes(r.Args, reply, c.Cut) }
func (c *etherView) repair(r *Request, reply *Reply) error {
	return c.changeNodes(r.Args, reply, c.Repair)
}

func (c *etherView) changeNodes(args []string, reply *Reply, do func(topology.End)) error {
	var changed []topology.End
	if err := each(args, c.findSwitch, func(node int) { changed = append(changed, c.portsOf(node)...) }); err != nil {
		return err
	}
	c.apply(changed, reply, do)
	return nil
}
