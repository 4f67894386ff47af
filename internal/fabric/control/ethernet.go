package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// An Attached returns the programs that are attached to a port.
type Attached = func(at topology.End) []hostport.Program

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
	trunk := func(e topology.End) string {
		if t := n.Trunks().At(e); t != nil {
			return t.String()
		}
		return ""
	}
	c := &etherView{Network: n, directory: directory{f, f.Names(), trunk}, attached: attached, at: dcb.FromDuration(now)}
	reply := Reply{Now: now, Network: Ethernet}
	if err := do(c, &r, &reply); err != nil {
		return nil, err
	}
	return json.Marshal(&reply)
}

var ethernetVerbs = map[string]func(c *etherView, r *Request, reply *Reply) error{
	VerbStatus:   (*etherView).status,
	VerbPorts:    (*etherView).ports,
	VerbLinks:    (*etherView).links,
	VerbRoutes:   (*etherView).routes,
	VerbTrace:    (*etherView).trace,
	VerbCounters: (*etherView).counters,
	VerbDeadlock: (*etherView).deadlock,
	VerbFaults:   (*etherView).faults,
	VerbLinkDown: (*etherView).linkDown,
	VerbLinkUp:   (*etherView).linkUp,
	VerbLoad:     (*etherView).load,
	VerbStall:    (*etherView).stall,
	VerbFail:     (*etherView).fail,
	VerbRepair:   (*etherView).repair,
}

// An etherView is an Ethernet while it answers one request.
type etherView struct {
	*lan.Network
	directory
	attached Attached
	at       dcb.Time
}

func (c *etherView) status(_ *Request, reply *Reply) error {
	st := &Status{Network: Ethernet, Links: make(map[string]int)}
	for i := range c.fabric.Nodes {
		t := &c.fabric.Nodes[i]
		n := Node{Name: c.names[i], Kind: "host", GUID: t.GUID, MAC: c.MAC(i).MAC().String(), Ports: t.NumPorts(), LIDs: []uint16{}}
		if c.isSwitch(i) {
			n.Kind = "switch"
			st.Switches++
		} else {
			st.Adapters++
			if n.IPs = c.addresses(i); len(n.IPs) > 0 {
				n.IP = n.IPs[0]
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

// addresses returns the IP addresses of a host.
func (c *etherView) addresses(node int) []string {
	ip := c.IP(node)
	if ip == (dcb.IP{}) {
		return nil
	}
	return []string{ip.Addr().String(), lan.IPv6(ip).Addr().String()}
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
				Node: c.names[i], Port: e.Port, GUID: c.fabric.Port(e).GUID, State: c.linkState(e), IPs: c.addresses(i),
				MTU: p.MTU() - ethernet.HeaderLen - ethernet.CheckLen, Speed: speedText(p), Programs: c.attached(e),
			})
		}
	}
	return nil
}

func speedText(p *dcb.Port) string {
	if s := p.Config().Speed; s < dcb.Gbit {
		return fmt.Sprintf("%dM", s/dcb.Mbit)
	}
	return fmt.Sprintf("%dG", p.Config().Speed/dcb.Gbit)
}

func (c *etherView) links(r *Request, reply *Reply) error { return c.list(r, reply, c.link) }

func (c *etherView) link(e topology.End) Link {
	p := c.Port(e)
	return Link{State: c.linkState(e), Speed: speedText(p), Rate: uint64(p.Config().Speed), Faults: c.present(e),
		Ends: c.ends(e, c.linkEnd)}
}

// linkEnd describes a port. What it counts is the sum of its priorities.
func (c *etherView) linkEnd(e topology.End) LinkEnd {
	p := c.Port(e)
	_, _, held := p.Holding(c.Network.Now())
	end := LinkEnd{Name: c.endPortName(e), Node: c.names[e.Node], Port: e.Port, Switch: c.isSwitch(e.Node), MTU: p.MTU() - ethernet.HeaderLen - ethernet.CheckLen, Wait: held.Duration()}
	for i := range uint8(ethernet.Priorities) {
		k := p.Counters(i)
		end.Bytes += k.Sent.Bytes
		end.Packets += k.Sent.Frames
		end.Wait += k.Paused.Duration()
		end.Discards += k.Dropped
		if k != (dcb.Counters{}) {
			end.Priorities = append(end.Priorities, Priority{
				Priority: int(i), Bytes: k.Sent.Bytes, Frames: k.Sent.Frames, Queue: p.Waiting(i), PausesSent: k.PausesSent, PausesReceived: k.PausesReceived,
				Paused: k.Paused.Duration(), Marked: k.Marked, Dropped: k.Dropped, Storms: k.Storms,
			})
		}
	}
	end.Errors = c.Extras().Errors(e)
	if a := c.Extras().Agent(e); a != nil && a.Neighbor() != nil {
		end.Neighbor = neighborName(a.Neighbor())
		for _, d := range a.Mismatches() {
			end.Mismatches = append(end.Mismatches, fmt.Sprintf("%v: %v", d.Reason, d))
		}
	}
	return end
}

// neighborName is what a neighbor calls itself.
func neighborName(l *ethernet.LLDP) string {
	port := l.Port.Value
	if l.Port.Kind == ethernet.PortMAC {
		port = fmt.Sprintf("%x", port)
	}
	return strings.ToValidUTF8(l.SystemName+" "+port, "?")
}

func (c *etherView) counters(r *Request, reply *Reply) error { return c.count(r, reply, c.counted) }

// counted is what a port has counted.
func (c *etherView) counted(e topology.End) []Counter {
	values := []Counter{}
	now, p := c.Network.Now(), c.Port(e)
	for i := range uint8(ethernet.Priorities) {
		k := p.Counters(i)
		var pause dcb.Time
		if p.Halted()&(1<<i) != 0 {
			pause = now - p.HaltedSince(i)
		}
		values = appendCounters(values, fmt.Sprintf("priority %d ", i),
			Counter{"queue", uint64(p.Waiting(i))}, Counter{"frames sent", k.Sent.Frames}, Counter{"bytes sent", k.Sent.Bytes}, Counter{"frames received", k.Received.Frames}, Counter{"bytes received", k.Received.Bytes},
			Counter{"pauses sent", k.PausesSent}, Counter{"pauses received", k.PausesReceived}, Counter{"paused ns", uint64(k.Paused.Duration())}, Counter{"paused now ns", uint64(pause.Duration())},
			Counter{"marked", k.Marked}, Counter{"dropped", k.Dropped}, Counter{"storms", k.Storms}, Counter{"longest queue", uint64(k.Peak)},
		)
	}
	held, times, total := p.Holding(now)
	values = appendCounters(values, "trunk ", Counter{"held", times}, Counter{"held ns", uint64(total.Duration())}, Counter{"held now ns", uint64(held.Duration())})
	values = append(values, c.bufferCounters(e)...)
	for why := reason.EthernetLength; why <= reason.EthernetForeign; why++ {
		if n := c.dropped(e, why); n != 0 {
			values = append(values, Counter{why.String(), n})
		}
	}
	return values
}

// appendCounters appends the counters that are not zero, with what their names begin with.
func appendCounters(values []Counter, begin string, all ...Counter) []Counter {
	for _, v := range all {
		if v.Value != 0 {
			values = append(values, Counter{begin + v.Name, v.Value})
		}
	}
	return values
}

// bufferCounters is what arrivals at a port take of the buffer of a switch, or of that of a host's port.
func (c *etherView) bufferCounters(e topology.End) (values []Counter) {
	for i := range uint8(ethernet.Priorities) {
		var held, peak int
		if h := c.Host(e.Node); h != nil {
			held = h.Held(i)
		} else {
			held, _, peak = c.Switch(e.Node).Held(e.Port, i)
		}
		values = appendCounters(values, fmt.Sprintf("priority %d ", i), Counter{"bytes held", uint64(held)}, Counter{"headroom peak", uint64(peak)})
	}
	return appendCounters(values, "", Counter{reason.EthernetCheck.String(), c.Extras().Errors(e)}, Counter{reason.EthernetTelemetry.String(), c.Port(e).Untold})
}

// dropped is how many frames a port has dropped for a reason. What was under way to it when its cable was
// cut is among them.
func (c *etherView) dropped(e topology.End, why reason.Reason) (n uint64) {
	if why == reason.EthernetLinkDown {
		n = c.Lost(e)
	}
	if h := c.Host(e.Node); h != nil {
		return n + h.Dropped(why)
	}
	return n + c.Switch(e.Node).Port(e.Port).Dropped(why)
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
