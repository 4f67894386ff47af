package control

import (
	"fmt"
	"net/netip"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// defaultSourcePort is the first of the ports from which RoCE v2 sends (IBTA A17.3.2.1).
const defaultSourcePort = 0xc000

// routes lists the routes of a switch.
func (c *etherView) routes(r *Request, reply *Reply) error {
	i, err := c.findSwitch(r.Args[0])
	if err != nil {
		return err
	}
	rt := &Routes{Switch: c.names[i], Ports: []RoutePort{}, Groups: []Group{}, Prefixes: []Prefix{}}
	c.Switch(i).Routes(func(to netip.Prefix, hops, live []bridge.Hop) {
		p := Prefix{Prefix: to.String(), Node: c.homeOf(to), Ports: []int{}, To: []string{}, Down: []int{}}
		if p.Node == "" {
			p.Node = anotherFabric
		}
		for _, h := range live {
			p.Ports = append(p.Ports, h.Port)
			p.To = append(p.To, c.otherEnd(topology.End{Node: i, Port: h.Port}))
		}
		for _, h := range hops {
			if !c.Port(topology.End{Node: i, Port: h.Port}).Up() {
				p.Down = append(p.Down, h.Port)
			}
		}
		rt.Prefixes = append(rt.Prefixes, p)
	})
	reply.Routes = rt
	return nil
}

// anotherFabric is where addresses are that no host of this fabric has.
const anotherFabric = "another fabric"

// homeOf returns the host that has an address, or the switch whose hosts have those of a prefix.
func (c *etherView) homeOf(to netip.Prefix) string {
	for i := range c.fabric.Nodes {
		ip := c.sender(i, to.Addr())
		if ip == (dcb.IP{}) || !to.Contains(ip.Addr()) {
			continue
		}
		if to.IsSingleIP() {
			return c.names[i]
		}
		return c.names[c.fabric.Nodes[i].Ports[1].Peer.Node]
	}
	return ""
}

// An etherWalk follows a frame.
type etherWalk struct {
	*etherView
	t     *Trace
	frame dcb.Frame
	seen  map[topology.End]bool
}

// trace follows a datagram of RoCE v2 by the routes of this moment.
func (c *etherView) trace(r *Request, reply *Reply) error {
	from, err := c.findAdapter(r.Args[0])
	if err != nil {
		return err
	}
	t := &Trace{From: c.names[from], Hops: []Hop{}, SourcePort: defaultSourcePort}
	if r.SourcePort != 0 {
		t.SourcePort = r.SourcePort
	}
	if t.SL, err = r.priority(); err != nil {
		return err
	}
	to, err := c.target(r.Args[1])
	if err != nil {
		return err
	}
	src := c.sender(from, to.Addr())
	if src == (dcb.IP{}) {
		return fmt.Errorf("%s has no cable, and so no address", t.From)
	}
	reply.Trace = t
	w := &etherWalk{etherView: c, t: t, seen: make(map[topology.End]bool)}
	w.frame = dcb.Frame{Src: c.MAC(from), Dst: c.Gateway(from), IP: true, To: to, DSCP: t.SL << 3, Hops: hopLimit,
		Flow: dcb.FlowOf(src, to, protocolUDP, t.SourcePort, rocePort)}
	t.Hash = w.frame.Flow
	t.FromIP, t.ToIP, t.To = src.Addr().String(), to.Addr().String(), c.homeOf(netip.PrefixFrom(to.Addr(), to.Addr().BitLen()))
	t.Hops = append(t.Hops, Hop{Node: t.From, VL: -1})
	for at, on := w.leave(topology.End{Node: from, Port: 1}, t.SL); on; at, on = w.step(at) {
	}
	return nil
}

const (
	hopLimit    = 64
	protocolUDP = 17
	rocePort    = 4791
)

// priority returns the priority of a request about an Ethernet, 0 if it has none.
func (r *Request) priority() (uint8, error) {
	if r.SL == nil {
		return 0, nil
	}
	if *r.SL >= ethernet.Priorities {
		return 0, fmt.Errorf("priority: expected 0 to %d, found %d", ethernet.Priorities-1, *r.SL)
	}
	return *r.SL, nil
}

// target reads the name or the address of a host.
func (c *etherView) target(name string) (dcb.IP, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return dcb.IPFrom(a.As16()), nil
	}
	i, err := c.findAdapter(name)
	if err == nil && c.addressOf(i) == "" {
		err = fmt.Errorf("%s has no cable, and so no address", name)
	}
	if err != nil {
		return dcb.IP{}, err
	}
	return c.IP(i), nil
}

// sender is the address with which a host sends to another one, of the same family; zero without one.
func (c *etherView) sender(node int, to netip.Addr) dcb.IP {
	ip := c.IP(node)
	if ip != (dcb.IP{}) && to.Is6() {
		return lan.IPv6(ip)
	}
	return ip
}

// addressOf is the IPv4 address of a host, "" without one.
func (c *etherView) addressOf(node int) string {
	if ip := c.IP(node); ip != (dcb.IP{}) {
		return ip.Addr().String()
	}
	return ""
}

// step is one node on the path, at the port where the frame arrives. It returns where the frame arrives
// next, and false if it goes no further.
func (w *etherWalk) step(at topology.End) (next topology.End, on bool) {
	w.t.Hops = append(w.t.Hops, Hop{Node: w.names[at.Node], In: at.Port, VL: -1})
	sw := w.Switch(at.Node)
	if sw == nil {
		if own := w.sender(at.Node, w.frame.To.Addr()); own != w.frame.To {
			w.lose(at.Node, reason.Detail{Reason: reason.EthernetForeign, Expected: own.Lo & 0xffffffff, Found: w.frame.To.Lo & 0xffffffff})
		}
		return next, false
	}
	hop, among, decided := sw.Path(&w.frame)
	switch {
	case among == nil:
		w.lose(at.Node, reason.Detail{Reason: reason.EthernetRoute, Expected: uint64(sw.CountRoutes()), Found: w.frame.To.Lo & 0xffffffff})
		return next, false
	case w.frame.Hops <= 1:
		w.lose(at.Node, reason.Detail{Reason: reason.EthernetHops, Expected: 2, Found: uint64(w.frame.Hops)})
		return next, false
	}
	h := &w.t.Hops[len(w.t.Hops)-1]
	if len(among) > 1 {
		for _, p := range among {
			h.Among = append(h.Among, p.Port)
		}
		if h.By = "hash"; !decided {
			h.By = "chance"
		}
	}
	w.frame.Hops--
	w.frame.DSCP = sw.Remarked(w.frame.DSCP)
	return w.leave(topology.End{Node: at.Node, Port: hop.Port}, sw.PriorityOf(at.Port, w.frame.DSCP))
}

// leave sends the frame by a port on a priority, and returns where it arrives.
func (w *etherWalk) leave(e topology.End, priority uint8) (next topology.End, on bool) {
	h := &w.t.Hops[len(w.t.Hops)-1]
	next = w.fabric.Port(e).Peer
	p := w.Port(e)
	h.Out, h.VL, h.To = e.Port, int(priority), w.otherEnd(e)
	if p.Halted()&(1<<priority) != 0 {
		h.Paused = (w.Network.Now() - p.HaltedSince(priority)).Duration()
	}
	held, _, _ := p.Holding(w.Network.Now())
	h.Held = held.Duration()
	switch {
	case !p.Up():
		w.lose(e.Node, dcb.LinkDown(e.Port, priority))
	case p.Storms()&(1<<priority) != 0:
		w.lose(e.Node, p.StormDetail(w.Network.Now(), priority))
	case w.seen[e]:
		w.lose(e.Node, reason.Detail{Reason: reason.EthernetHops, Expected: 2, Found: 1})
	case next.Port == 0:
		w.t.Trunk = w.trunk(e)
	default:
		w.seen[e] = true
		return next, true
	}
	return next, false
}

// lose ends the path at a node.
func (w *etherWalk) lose(node int, d reason.Detail) {
	w.t.Broken = &Break{Node: w.names[node], Reason: d.Reason.String(), Text: d.String()}
}
