package live

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// An ethernetNetwork is the network of a fabric of Ethernet switches. It has the network stack of each
// host's port: programs give and get the payloads of UDP datagrams.
type ethernetNetwork struct {
	*Fabric
	lan   *lan.Network
	hosts map[netip.Addr]int // nodes
	out   fabric.Datagram
	in    fabric.Datagram
	one   [1][]byte
}

var _ network = (*ethernetNetwork)(nil)

// newEthernet makes the network of a fabric.
func newEthernet(f *Fabric) *ethernetNetwork {
	c := f.config.Ethernet
	n := &ethernetNetwork{Fabric: f, hosts: make(map[netip.Addr]int)}
	n.lan = lan.New(lan.Config{
		Fabric: f.config.Fabric, Link: c.Link, Each: c.Each, Switch: c.Switch, Host: station.Config{Queue: hostQueue, Buffer: hostBuffer},
		Deliver: n.deliver,
		Dropped: func(_ dcb.Time, at topology.End, _ *dcb.Frame, d reason.Detail) { f.drop(at, d) },
	})
	for i := range f.config.Fabric.Nodes {
		if ip, ok := n.addr(i); ok {
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

// addr returns the IP address of a host, and false for a switch.
func (n *ethernetNetwork) addr(node int) (ip netip.Addr, ok bool) {
	if a := n.lan.IP(node); a != (dcb.IP{}) {
		return a.Addr(), true
	}
	return ip, false
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

// run implements network.
func (n *ethernetNetwork) run(_, until time.Duration) { n.lan.RunAhead(dcb.FromDuration(until)) }

// plug implements network.
func (*ethernetNetwork) plug(*program) {}

// unplug implements network. What waits for the program is dropped.
func (n *ethernetNetwork) unplug(now time.Duration, a *attachment) { n.resume(now, a.at) }

// resume implements network.
func (n *ethernetNetwork) resume(now time.Duration, at topology.End) {
	n.lan.Resume(dcb.FromDuration(now), at.Node)
}

// describe implements network.
func (n *ethernetNetwork) describe(at topology.End) attach.Info {
	host := n.lan.Host(at.Node)
	c := host.Config()
	mac := host.Address().MAC()
	i := attach.Info{
		Up: true, Fabric: n.config.Name, Node: n.names[at.Node], Port: uint8(at.Port), Description: n.config.Fabric.Nodes[at.Node].Description,
		Ethernet: &attach.EthernetInfo{MAC: mac, MTU: host.MTU() - ethernet.HeaderLen - ethernet.CheckLen, SpeedMbps: int(c.Speed / 1e6)},
	}
	i.PortInfo.State = smp.PortDown
	if host.Up() {
		i.PortInfo.State = smp.PortActive
	}
	if ip, ok := n.addr(at.Node); ok {
		i.Addrs = []netip.Addr{ip}
	}
	return i
}

// headersLen is the length of the headers in front of the payload of a datagram.
const headersLen = ethernet.HeaderLen + ipv4Len + udpLen

const (
	ipv4Len = 20
	udpLen  = 8
)

// defaultHops is the hop limit of datagrams for which a program sets none.
const defaultHops = 64

// read implements network.
func (n *ethernetNetwork) read(a *attachment, level uint8, x *input) bool {
	size, front := x.size(), headersLen
	if a.frames {
		front = 0
	}
	d := &n.out
	d.Parse(x.batch.Headers)
	f := n.lan.Pool().Frame()
	f.Data = slices.Grow(f.Data[:0], front+size)[:front+size]
	copy(f.Data[front:], x.batch.Data[x.at:x.at+size])
	a.advance(level, x, size)
	var why reason.Detail
	if a.frames {
		why = n.check(a, f, level)
	} else {
		why = n.wrap(a, f, level)
	}
	switch {
	case why.Reason != reason.None:
		n.drop(a.at, why)
	case f.Op != 0: // for the neighbor only, and the port pauses by itself
	case a.frames && n.answerARP(a, f):
	default:
		f.Priority = level
		x.frame, x.wired = f.Data, f
		return true
	}
	n.lan.Pool().Put(f)
	return false
}

// wrap writes the headers in front of a program's payload, as a network stack does.
func (n *ethernetNetwork) wrap(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	d := &n.out
	own, _ := n.addr(a.at.Node)
	switch {
	case d.Src.Addr() != own:
		return reason.Detail{Reason: reason.PacketGID, Expected: low(own), Found: low(d.Src.Addr())}
	case d.Priority() != level:
		return reason.Detail{Reason: reason.FabricLane, Expected: uint64(level), Found: uint64(d.Priority())}
	case !d.Dst.Addr().Is4():
		return reason.Detail{Reason: reason.EthernetRoute, Found: low(d.Dst.Addr())}
	}
	if d.HopLimit == 0 {
		d.HopLimit = defaultHops
	}
	size := len(f.Data) - headersLen
	e := ethernet.Header{Dst: n.lan.Gateway(a.at.Node).MAC(), Src: n.lan.Host(a.at.Node).Address().MAC(), Type: ethernet.TypeIPv4}
	at := e.Put(f.Data)
	at += ib.PutIP(f.Data[at:], own, d.Dst.Addr(), d.TOS, d.HopLimit, 0, udpLen+size)
	ib.PutUDP(f.Data[at:], d.Src.Port(), d.Dst.Port(), size, 0)
	return f.Parse()
}

// check checks a frame of a host that has a network stack of its own.
func (n *ethernetNetwork) check(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	if level >= ethernet.Priorities {
		return reason.Detail{Reason: reason.FabricLane, Expected: ethernet.Priorities - 1, Found: uint64(level)}
	}
	why := f.Parse()
	if own := n.lan.Host(a.at.Node).Address(); why.Reason == reason.None && f.Src != own {
		why = reason.Detail{Reason: reason.EthernetForeign, Expected: uint64(own), Found: uint64(f.Src)}
	}
	return why
}

// low is the last four bytes of an address.
func low(a netip.Addr) uint64 {
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}

// send implements network.
func (n *ethernetNetwork) send(now time.Duration, a *attachment, x *input) bool {
	return n.lan.Send(dcb.FromDuration(now), a.at.Node, x.wired)
}

// discard implements network.
func (n *ethernetNetwork) discard(x *input) {
	n.lan.Pool().Put(x.wired)
	x.frame, x.wired = nil, nil
}

// deliver gives a datagram to the program at a host's port. A switch takes none itself.
func (n *ethernetNetwork) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	if n.lan.Host(at.Node) == nil {
		return false
	}
	var a *attachment
	if p := n.programs[at.Node]; p != nil {
		a = p.ports[at.Port].any()
	}
	var payload []byte
	var why reason.Detail
	if a != nil && a.frames {
		payload, n.in = f.Data, fabric.Datagram{TOS: f.Priority << 5}
	} else {
		payload, why = n.open(at.Node, f)
	}
	if why.Reason == reason.None && (a == nil || a.ended) {
		why = reason.Detail{Reason: reason.EthernetNobody, Expected: uint64(n.in.Dst.Port()), Found: uint64(n.in.Dst.Port())}
	}
	if why.Reason != reason.None {
		n.drop(at, why)
		n.lan.Pool().Put(f)
		return true
	}
	level := n.in.Priority()
	if !a.end.Room(level, 1, len(payload)) && a.hold(now.Duration(), level) {
		return false
	}
	n.one[0] = payload
	if !a.end.PutDatagrams(level, &n.in, len(payload), n.one[:], len(payload)) {
		a.fail(reason.Detail{Reason: reason.FabricFull, Expected: uint64(level), Found: uint64(len(payload))})
	} else {
		a.heard(level)
	}
	n.one[0] = nil
	n.lan.Pool().Put(f)
	return true
}

// open reads the headers of a frame, into n.in, and returns the payload of its datagram.
func (n *ethernetNetwork) open(node int, f *dcb.Frame) (payload []byte, why reason.Detail) {
	own, _ := n.addr(node)
	b := f.Data[min(ethernet.HeaderLen, len(f.Data)):]
	if f.Tagged {
		b = b[min(ethernet.TagLen, len(b)):]
	}
	length := 0
	if len(b) >= ipv4Len+udpLen {
		length = int(binary.BigEndian.Uint16(b[ipv4Len+4:])) - udpLen
	}
	switch {
	case !f.IP || len(b) < ipv4Len+udpLen || b[0] != 0x45:
		return nil, reason.Detail{Reason: reason.EthernetDatagram, Expected: protocolUDP}
	case b[9] != protocolUDP || binary.BigEndian.Uint16(b[6:])&^dontFragment != 0:
		return nil, reason.Detail{Reason: reason.EthernetDatagram, Expected: protocolUDP, Found: uint64(b[9])}
	case f.To.Addr() != own:
		return nil, reason.Detail{Reason: reason.EthernetForeign, Expected: low(own), Found: f.To.Lo & 0xffffffff}
	case length <= 0 || length > len(b)-ipv4Len-udpLen:
		return nil, reason.Detail{Reason: reason.EthernetLength, Expected: uint64(max(length, 1)), Found: uint64(len(b) - ipv4Len - udpLen)}
	}
	u := b[ipv4Len:]
	n.in = fabric.Datagram{
		Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(u)),
		Dst: netip.AddrPortFrom(own, binary.BigEndian.Uint16(u[2:])),
		TOS: b[1], HopLimit: b[8],
	}
	return u[udpLen : udpLen+length], reason.Detail{}
}

const (
	protocolUDP  = 17
	dontFragment = 1 << 14
)

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
			if a := p.ports[i].any(); a != nil {
				a.changed()
			}
		}
	}
}

// attached returns the process at a port, 0 if there is none.
func (n *ethernetNetwork) attached(at topology.End) int {
	if p := n.programs[at.Node]; p != nil {
		return p.Process(at.Port)
	}
	return 0
}

// find implements network.
func (n *ethernetNetwork) find(ip netip.Addr) (gid [16]byte, ok bool) {
	_, ok = n.hosts[ip]
	return ip.As16(), ok
}

// message implements network: programs say nothing once they are attached.
func (*ethernetNetwork) message(_ *attachment, k attach.Kind, _ []byte) error {
	return reason.Detail{Reason: reason.FabricMessage, Expected: uint64(attach.Hello), Found: uint64(k)}.Err()
}
