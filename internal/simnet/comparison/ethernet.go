package comparison

import (
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/topology"
)

// An ethernet is the switches and links of an Ethernet fabric in the middle of a network, which drives it.
type ethernet struct {
	net     *simnet.Network
	lan     *lan.Network
	nodes   []int              // of the hosts
	hosts   map[netip.Addr]int // numbers of hosts
	waiting [][]*dcb.Frame     // of each node: frames for which its port has no room
	carried []simnet.Transit   // by the cookies of frames
	free    []uint64           // cookies
	drops   int
}

// newEthernet puts a fabric into a network. Host i of the list has address hostAddress(i).
func newEthernet(n *simnet.Network, p *Parameters, f *topology.Fabric, hosts []int, pfc bool) *ethernet {
	x := &ethernet{net: n, nodes: hosts, hosts: map[netip.Addr]int{}, waiting: make([][]*dcb.Frame, len(f.Nodes))}
	c := lan.Config{Fabric: f, Seed: p.Seed, Host: station.Config{Queue: 1}, Deliver: x.deliver, Writable: x.writable, Dropped: x.dropped}
	c.Link = lan.Link{Cable: dcb.FromDuration(p.Cable), Port: dcb.PortConfig{Speed: dcb.Speed(p.Bandwidth), MTU: longest}}
	c.Switch.Hop, c.Switch.Buffer.Size = dcb.FromDuration(p.EthernetHop), p.Buffer
	c.Switch.Marking[0] = bridge.Marking{Min: p.MarkAbove, Max: p.MarkAbove}
	if pfc {
		c.Link.Port.Pause, c.Link.Port.Lossless = dcb.ByClass, 1
	}
	x.lan = lan.New(c)
	for i := range hosts {
		x.hosts[hostAddress(i)] = i
	}
	n.Carry(x.carry)
	n.Drive(x)
	return x
}

// longest is the longest frame of any protocol.
const longest = 4300

func hostAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

// Progress implements simnet.Driver.
func (x *ethernet) Progress() time.Duration {
	x.lan.Run(dcb.FromDuration(x.net.Clock()))
	return x.lan.Deadline().DurationUp()
}

// carry sends a packet from its host's port.
func (x *ethernet) carry(t simnet.Transit) {
	from, to := x.nodes[x.hosts[t.Src.Addr()]], x.nodes[x.hosts[t.Dst.Addr()]]
	f := x.lan.Pool().Frame()
	x.lan.Address(f, from, to, t.Src.Port())
	if !t.IP { // no router forwards it
		f.IP, f.Dst = false, x.lan.MAC(to)
	}
	f.Len, f.DSCP, f.ECN, f.Priority = int32(t.Len), t.TOS>>2, t.TOS&3, 0
	f.Cookie = x.keep(t)
	x.waiting[from] = append(x.waiting[from], f)
	x.flush(dcb.FromDuration(x.net.Clock()), from)
}

// keep returns the cookie of the frame that carries a packet.
func (x *ethernet) keep(t simnet.Transit) (cookie uint64) {
	if n := len(x.free); n > 0 {
		cookie, x.free = x.free[n-1], x.free[:n-1]
		x.carried[cookie] = t
		return cookie
	}
	x.carried = append(x.carried, t)
	return uint64(len(x.carried) - 1)
}

// flush passes frames to the port of a node as long as it has room.
func (x *ethernet) flush(now dcb.Time, node int) {
	sent := 0
	for _, f := range x.waiting[node] {
		if !x.lan.Send(now, node, f) {
			break
		}
		sent++
	}
	x.waiting[node] = slices.Delete(x.waiting[node], 0, sent)
}

// room reports whether the port of a host takes a packet.
func (x *ethernet) room(host int) bool {
	node := x.nodes[host]
	return len(x.waiting[node]) == 0 && x.lan.Host(node).Room(0)
}

// writable, deliver and dropped are called by the fabric.
func (x *ethernet) writable(now dcb.Time, node int) { x.flush(now, node) }

func (x *ethernet) deliver(_ dcb.Time, _ topology.End, f *dcb.Frame) bool {
	t := x.carried[f.Cookie]
	t.TOS = t.TOS&^3 | f.ECN
	x.free = append(x.free, f.Cookie)
	x.net.Arrive(t)
	x.lan.Pool().Put(f)
	return true
}

func (x *ethernet) dropped(_ dcb.Time, _ topology.End, f *dcb.Frame, d reason.Detail) {
	if d.Reason == reason.EthernetForeign { // a copy for a host that the switch did not know yet
		return
	}
	x.drops++
	x.net.Lose(x.carried[f.Cookie])
	x.free = append(x.free, f.Cookie)
}

// pauses returns how many frames switches have sent that pause a port.
func (x *ethernet) pauses() (n uint64) {
	for i := range x.lan.Nodes() {
		sw := x.lan.Switch(i)
		if sw == nil {
			continue
		}
		for p := 1; p <= sw.Ports(); p++ {
			n += sw.Port(p).Counters(0).PausesSent
		}
	}
	return n
}

// An adapterPort is the link of a RoCE v2 adapter, whose queue pairs wait while its port has no room.
type adapterPort struct {
	*simnet.Link
	room
}

// A framePort is that of a RoCE v1 adapter.
type framePort struct {
	*simnet.EthernetLink
	room
}

// Capabilities implements link.Packets. Queue pairs take turns, a packet each.
func (p *adapterPort) Capabilities() link.Capabilities { return p.limit(p.Link.Capabilities()) }
func (p *framePort) Capabilities() link.Capabilities   { return p.limit(p.EthernetLink.Capabilities()) }

// A room is the link.Limited of a host's port.
type room struct {
	fabric *ethernet
	host   int
}

func (r *room) limit(c link.Capabilities) link.Capabilities {
	c.Packets, c.Limited = 1, r
	return c
}

// Level implements link.Limited.
func (*room) Level(uint8, uint8) uint8 { return 0 }

// Room implements link.Limited.
func (r *room) Room(uint8) bool { return r.fabric.room(r.host) }
