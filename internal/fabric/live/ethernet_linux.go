package live

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib/own"
	"softrdma/internal/wire/mad/smp"
)

// An ethernetNetwork is the network of a fabric of Ethernet switches. It has the network stack of each
// host's port: programs give and get what their service says.
type ethernetNetwork struct {
	*Fabric
	lan   *lan.Network
	hosts map[netip.Addr]int // nodes, by each of their addresses
	out   fabric.Datagram
	in    arrival

	pauseFrame []byte // of show
}

var _ network = (*ethernetNetwork)(nil)

// newEthernet makes the network of a fabric.
func newEthernet(f *Fabric) *ethernetNetwork {
	c := *f.config.Ethernet
	c.Switch.Telemetry = true
	n := &ethernetNetwork{Fabric: f, hosts: make(map[netip.Addr]int)}
	each := c.Each
	if len(f.config.Trunks.Cables) > 0 {
		each = func(at topology.End, l *lan.Link) {
			if c.Each != nil {
				c.Each(at, l)
			}
			f.trunkLink(at, l)
		}
	}
	n.lan = lan.New(lan.Config{
		Fabric: f.config.Fabric, Link: c.Link, UpDown: c.UpDown, Each: each, Switch: c.Switch, Prefix: c.Prefix, Host: station.Config{Queue: hostQueue, Buffer: hostBuffer}, IPv6: true, Bridged: true,
		Deliver: n.deliver, Pausing: n.pausing,
		Dropped: func(_ dcb.Time, at topology.End, _ *dcb.Frame, d reason.Detail) { f.drop(at, d) },
	})
	for i := range f.config.Fabric.Nodes {
		for _, ip := range n.addrs(i) {
			n.hosts[ip] = i
		}
	}
	return n
}

// What waits at a host's port: for the link, and for the program.
const (
	hostQueue  = 256 << 10
	hostBuffer = 256 << 10
)

// addrs returns the IP addresses of a host, none for a switch. The first one is that of IPv4.
func (n *ethernetNetwork) addrs(node int) []netip.Addr {
	a := n.lan.IP(node)
	if a == (dcb.IP{}) {
		return nil
	}
	return []netip.Addr{a.Addr(), lan.IPv6(a).Addr()}
}

// named implements network. A host by its name has its IPv4 address.
func (n *ethernetNetwork) named(name string) (node int, addr netip.Addr, err error) {
	if ip, e := netip.ParseAddr(name); e == nil {
		if node, ok := n.hosts[ip.Unmap()]; ok {
			return node, ip.Unmap(), nil
		}
		return 0, addr, fmt.Errorf("no host of the fabric has the IP address %v, as softrdma fabric status lists them", ip)
	}
	if node, err = n.config.Fabric.Find(name); err == nil {
		if list := n.addrs(node); len(list) > 0 {
			addr = list[0]
		}
	}
	return node, addr, err
}

// kind implements network.
func (*ethernetNetwork) kind() attach.Network { return attach.Ethernet }

// deadline implements network.
func (n *ethernetNetwork) deadline() time.Duration {
	if at := n.lan.Deadline(); at != dcb.Never {
		return at.Duration()
	}
	return never
}

// run implements network. If the machine is late the clock of the network is behind the real one, and does
// not skip what is due, because pauses are times.
func (n *ethernetNetwork) run(_, until time.Duration) { n.lan.RunAhead(dcb.FromDuration(until)) }

// plug implements network.
func (*ethernetNetwork) plug(*program) {}

// unplug implements network. What waits for the program is dropped. The other programs with TCP learn that
// the program's stack has ended.
func (n *ethernetNetwork) unplug(now time.Duration, a *attachment) {
	if a.isSystem() {
		n.leaveSystem(a)
	}
	if a.service.kind == hostport.Segments {
		m := attach.AddrMessage(attach.StackEnded, a.service.addr)
		for _, p := range n.programs {
			for x := range p.all(a.at.Port) {
				if x.service.kind == hostport.Segments {
					x.outbox.mad(m) // without room the peer's own probes find out later
				}
			}
		}
	}
	n.resume(now, a.at)
}

// resume implements network.
func (n *ethernetNetwork) resume(now time.Duration, at topology.End) {
	n.lan.Resume(dcb.FromDuration(now), at.Node)
}

// setCut implements network. Programs at the host learn of it.
func (n *ethernetNetwork) setCut(_ time.Duration, at topology.End, cut bool) {
	if cut {
		n.lan.Cut(at)
	} else {
		n.lan.Repair(at)
	}
	n.lan.Reroute()
	n.look()
}

// isCut implements network.
func (n *ethernetNetwork) isCut(at topology.End) bool { return n.lan.IsCut(at) }

// describe implements network.
func (n *ethernetNetwork) describe(a *attachment) attach.Info {
	at := a.at
	host := n.lan.Host(at.Node)
	c := host.Config()
	mac := host.Address().MAC()
	i := attach.Info{
		Up: true, Fabric: n.config.Name, Node: n.names[at.Node], Port: uint8(at.Port), Description: n.config.Fabric.Nodes[at.Node].Description,
		Ethernet: &attach.EthernetInfo{Prefix: n.lan.Prefix(), Prefix6: lan.Prefix6(n.lan.Prefix()), MAC: mac, MTU: host.MTU() - ethernet.HeaderLen - ethernet.CheckLen, SpeedMbps: int(c.Speed / 1e6)},
	}
	i.PortInfo.State = smp.PortDown
	if host.Up() {
		i.PortInfo.State = smp.PortActive
	}
	i.Addrs = n.addrs(at.Node) // the program's first
	if k := slices.Index(i.Addrs, a.service.addr); k > 0 {
		i.Addrs[0], i.Addrs[k] = i.Addrs[k], i.Addrs[0]
	}
	return i
}

// front is the length of the headers that the port's stack writes in front of what the program sends.
func (s service) front() int {
	ip := ipv4Len
	if s.addr.Is6() {
		ip = ipv6Len
	}
	switch s.kind {
	case hostport.Datagrams:
		return ethernet.HeaderLen + ip + udpLen
	case hostport.Segments:
		return ethernet.HeaderLen
	}
	return 0
}

// read implements network.
func (n *ethernetNetwork) read(a *attachment, level uint8, x *input) bool {
	size, front := x.size(), a.service.front()
	n.out.Parse(x.batch.Headers)
	f := n.lan.Pool().Frame()
	f.Data = slices.Grow(f.Data[:0], front+size)[:front+size]
	copy(f.Data[front:], x.batch.Data[x.at:x.at+size])
	a.advance(level, x, size)
	var why reason.Detail
	switch a.service.kind {
	case hostport.Datagrams:
		why = n.wrapDatagram(a, f, level)
	case hostport.Segments:
		why = n.wrapSegment(a, f, level)
	case hostport.RoCEFrames:
		why = n.checkRoCE(a, f, level)
	default:
		why = n.checkFrame(a, f, level)
	}
	switch {
	case why.Reason != reason.None:
		n.drop(a.at, why)
	case f.Op != 0 && a.isSystem():
		n.lan.Extras().Pause(dcb.FromDuration(n.now()), a.at.Node, f)
		return false
	case f.Op != 0: // for the neighbor only, and the port pauses by itself
	case a.service.kind == hostport.WholeFrames && n.answerNeighbor(a, f):
	default:
		f.Priority = level
		a.service.inform(f, n.out.Dst.Port())
		if f.Dst.Group() && a.service.kind != hostport.WholeFrames {
			n.loop(a, f)
		}
		x.frame, x.wired = f.Data, f
		return true
	}
	n.lan.Pool().Put(f)
	return false
}

// send implements network. What a host sends to itself crosses no switch.
func (n *ethernetNetwork) send(now time.Duration, a *attachment, x *input) bool {
	at := dcb.FromDuration(now)
	if x.wired.Dst == n.lan.Host(a.at.Node).Address() {
		return n.deliver(at, a.at, x.wired)
	}
	return n.lan.Send(at, a.at.Node, x.wired) || n.overrun(at, a, x)
}

// discard implements network.
func (n *ethernetNetwork) discard(x *input) {
	n.lan.Pool().Put(x.wired)
	x.frame, x.wired = nil, nil
}

// deliver gives a frame to the program at a host's port that it is for. A switch takes none itself.
func (n *ethernetNetwork) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	if n.lan.Host(at.Node) == nil {
		return false
	}
	a, why := n.open(at, f)
	switch {
	case why.Reason != reason.None:
		n.drop(at, why)
		if why.Reason == reason.EthernetNobody {
			n.reset(now, at)
		}
	case n.in.group != [16]byte{}:
		n.spread(at)
	case !n.give(now.Duration(), a):
		return false
	}
	n.lan.Pool().Put(f)
	return true
}

// open reads a frame into n.in, and returns the program that it is for, unless it is for a group.
func (n *ethernetNetwork) open(at topology.End, f *dcb.Frame) (a *attachment, why reason.Detail) {
	p := n.programs[at.Node]
	x := &n.in
	if p != nil {
		if a = p.ports[at.Port].any(); a != nil && !a.ended {
			*x = arrival{payload: f.Data, head: fabric.Datagram{TOS: f.Priority << 5}}
			return a, why
		}
	}
	if why = x.read(f); why.Reason != reason.None || x.group != [16]byte{} {
		return nil, why
	}
	if own := n.lan.IP(at.Node); x.to != own && x.to != lan.IPv6(own) {
		return nil, reason.Detail{Reason: reason.EthernetForeign, Expected: own.Lo & 0xffffffff, Found: x.to.Lo & 0xffffffff}
	}
	a = nil
	if p != nil {
		if t := p.of(at.Port, x.service); t != nil {
			a = t.steer(x.packet)
		}
	}
	if a == nil || a.ended {
		why = reason.Detail{Reason: reason.EthernetNobody, Expected: uint64(x.kind), Found: uint64(x.head.Dst.Port())}
	}
	return a, why
}

// give gives what n.in has to a program, and reports whether it has taken it or loses it.
func (n *ethernetNetwork) give(now time.Duration, a *attachment) bool {
	x := &n.in
	level := x.head.Priority()
	if a.visit != nil && len(x.hops) > 0 { // the way to another host is a link of which nothing is told
		x.hops = nil
		n.lan.Host(a.at.Node).Untold++
	}
	switch room := a.end.Room(level, 1, len(x.hops)*own.HopLen+len(x.payload)); {
	case !room && a.hold(now, level):
		return false
	case !room:
		n.drop(a.at, reason.Detail{Reason: reason.FabricFull, Expected: uint64(level), Found: uint64(len(x.payload))})
	default:
		n.put(a)
	}
	return true
}

// put gives what n.in has to a program that has room.
func (n *ethernetNetwork) put(a *attachment) {
	x := &n.in
	level := x.head.Priority()
	if a.end.Deliver(level, &x.head, x.hops, x.payload) {
		a.heard(level)
	} else {
		a.fail(reason.Detail{Reason: reason.FabricFull, Expected: uint64(level), Found: uint64(len(x.payload))})
	}
}

// loop gives a copy of a frame to a group to the members at the sender's host, as network stacks do.
func (n *ethernetNetwork) loop(a *attachment, f *dcb.Frame) {
	if n.in.read(f).Reason == reason.None {
		n.spread(a.at)
	}
}

// spread gives what n.in has to the programs at a host that are in its group. A program without room
// loses it.
func (n *ethernetNetwork) spread(at topology.End) {
	p := n.programs[at.Node]
	if p == nil {
		return
	}
	x := &n.in
	member := attach.Membership{MGID: x.group, State: hostport.FullMember}
	for a := range p.all(at.Port) {
		if _, is := a.members[member]; !is || a.ended || a.service.kind != x.kind {
			continue
		}
		if a.end.Room(x.head.Priority(), 1, len(x.payload)) {
			n.put(a)
			continue
		}
		n.drop(at, reason.Detail{Reason: reason.FabricFull, Expected: uint64(x.head.Priority()), Found: uint64(len(x.payload))})
	}
}

// answer implements network.
func (n *ethernetNetwork) answer(question []byte) ([]byte, error) {
	if n.config.Ethernet.Control == nil {
		return nil, reason.NotSupported("this fabric answers no questions")
	}
	defer n.look()
	return n.config.Ethernet.Control(n.now(), n.lan, n.attached, question)
}

// look lets programs learn what a command may have changed.
func (n *ethernetNetwork) look() {
	for _, p := range n.programs {
		for i := range p.ports {
			for a := range p.all(i) {
				a.changed()
			}
		}
	}
}

// attached returns the programs at a port.
func (n *ethernetNetwork) attached(at topology.End) []hostport.Program {
	if p := n.programs[at.Node]; p != nil {
		return p.Programs(at.Port)
	}
	return nil
}

// find implements network.
func (n *ethernetNetwork) find(ip netip.Addr) (f attach.FoundBody, ok bool) {
	node, ok := n.hosts[ip]
	if !ok {
		return attach.FoundBody{GID: ip.As16()}, n.reaches(ip) // without a MAC address, because its frames are routed
	}
	return attach.FoundBody{GID: ip.As16(), MAC: n.lan.MAC(node).MAC()}, ok
}

// message implements network: programs join and leave groups.
func (n *ethernetNetwork) message(a *attachment, k attach.Kind, b []byte) error {
	if k != attach.Member {
		return reason.Detail{Reason: reason.FabricMessage, Expected: uint64(attach.Member), Found: uint64(k)}.Err()
	}
	var m attach.Membership
	on, err := m.Parse(b)
	if err == nil {
		n.post(func() { a.setMember(m, on) })
	}
	return err
}
