package live

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// A lanEnd joins a port of an Ethernet's switch to a trunk. Frames pass with all their bytes but the check
// sequence, also those that pause.
//
// What the trunk takes is bounded by a flow: the rest waits in the switch, where it is marked, pauses and is
// dropped as at any slow link. The other end grants more by frames of the trunk, behind those that pause, and
// none while its port is to pause and sends another frame. So what it cannot stop any more is bounded as well,
// whatever the network loses, and fits the headroom of its port.
type lanEnd struct {
	*trunkEnd
	net  *ethernetNetwork
	flow trunk.Flow
	held bool
	far  lan.Far
	out  []byte
}

// The kinds of frames of a trunk, which begin them.
const (
	carriedFrame  = 1 + iota // a frame of the switch
	carriedPause             // one that pauses, which does not count
	carriedCredit            // the flow's new limit, in 8 bytes
)

const creditLen = 1 + 8

var (
	_ lan.Trunk = (*lanEnd)(nil)
	_ plug      = (*lanEnd)(nil)
)

// trunkHeadroom is the bytes of a lossless priority at a port with a trunk: what the flow allows if all
// frames are short and each takes a cell, and two of the longest frames.
func trunkHeadroom(mtu int) int {
	return trunk.Window/trunk.LeastCost*bridge.DefaultCell + 2*(mtu+bridge.DefaultCell)
}

// trunkLink changes the link of a port with a trunk.
func (f *Fabric) trunkLink(at topology.End, l *lan.Link) {
	if slices.ContainsFunc(f.config.Trunks.Cables, func(c Cable) bool { return c.At == at }) {
		l.Port.Lasting, l.Headroom = true, trunkHeadroom(l.Port.MTU)
	}
}

// plugOf implements network.
func (n *ethernetNetwork) plugOf(e *trunkEnd) plug { return &lanEnd{trunkEnd: e, net: n} }

// said implements plug.
func (e *lanEnd) said() (numbers []uint64, u trunk.Use, l hardware.Link) {
	return e.net.lan.Trunks().Numbers(e.at), trunk.Ethernets, trunk.AnyLink
}

// begin implements plug.
func (e *lanEnd) begin() error {
	e.net.lan.Trunks().Plug(e.at, e)
	e.Changed()
	return nil
}

// Changed implements lan.Trunk.
func (e *lanEnd) Changed() {
	up := e.net.lan.Trunks().Up(e.at)
	e.trunk.PortChanged(e.now, trunk.PortState{Polls: !up && !e.net.lan.IsCut(e.at), Up: up, Width: trunk.AnyLink.Width, Speed: trunk.AnyLink.Speed})
}

// Send implements lan.Trunk.
func (e *lanEnd) Send(f *dcb.Frame) {
	if f.Op != 0 {
		k := ethernet.Control{Src: f.Src.MAC(), Op: f.Op, Enable: f.Enable, Quanta: f.Quanta}
		e.transmit(k.Append(append(e.out[:0], carriedPause)))
		e.grant()
		return
	}
	b := append(append(e.out[:0], carriedFrame), f.Data...)
	e.flow.Sent += trunk.Cost(len(b))
	e.transmit(b)
	e.pace()
}

func (e *lanEnd) transmit(b []byte) {
	e.out = b
	if d := e.trunk.Send(e.now, b); d.Reason != reason.None {
		e.fabric.drop(e.at, d)
	}
}

// pace lets the port send as long as the flow has room for the longest frame.
func (e *lanEnd) pace() {
	longest := 1 + e.net.lan.Port(e.at).MTU() + ethernet.TagLen
	if hold := !e.flow.Room(trunk.Cost(longest)); hold != e.held {
		e.held = hold
		e.net.lan.Trunks().Hold(e.at, hold)
	}
}

// received implements plug.
func (e *lanEnd) received() {
	e.grant()
	e.pace()
}

// grant tells the other end of room, unless the port is about to pause it.
func (e *lanEnd) grant() {
	if e.net.lan.Port(e.at).Telling() {
		return // Send grants behind the pause
	}
	if limit, ok := e.flow.Grant(); ok {
		e.transmit(binary.BigEndian.AppendUint64(append(e.out[:0], carriedCredit), limit))
	}
}

// Nodes implements trunk.Port.
func (e *lanEnd) Nodes(p *trunk.Peer, numbers []uint64) reason.Detail {
	far, ok := lan.ParseNumbers(numbers)
	if !ok {
		return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: 2, Found: uint64(len(numbers))}
	}
	own := e.net.lan.Prefix()
	if far.Prefix.Overlaps(own) {
		return reason.Detail{Reason: reason.EthernetPrefix, Expected: low(own.Addr()), Found: low(far.Prefix.Addr())}
	}
	for _, o := range e.ends {
		if x, ok := lan.ParseNumbers(o.nodes); ok && o.others != p.Process && far.Prefix.Overlaps(x.Prefix) {
			return reason.Detail{Reason: reason.EthernetPrefix, Expected: low(x.Prefix.Addr()), Found: low(far.Prefix.Addr())}
		}
	}
	e.far = far
	e.joined(p, numbers)
	return reason.Detail{}
}

// Connect implements trunk.Port.
func (e *lanEnd) Connect(now time.Duration, _ hardware.Link) {
	e.flow.Init()
	e.held = false
	e.net.lan.Trunks().Join(dcb.FromDuration(now), e.at, e.far)
}

// Disconnect implements trunk.Port.
func (e *lanEnd) Disconnect(now time.Duration) {
	e.net.lan.Trunks().Leave(dcb.FromDuration(now), e.at)
	e.Changed()
}

// Frame implements trunk.Port.
func (e *lanEnd) Frame(now time.Duration, b []byte) {
	if d := e.take(now, b); d.Reason != reason.None {
		e.fabric.drop(e.at, d)
	}
}

func (e *lanEnd) take(now time.Duration, b []byte) reason.Detail {
	bad := reason.Detail{Reason: reason.FabricTrunkMessage, Expected: carriedCredit, Found: uint64(len(b))}
	if len(b) == 0 {
		return bad
	}
	switch b[0] {
	case carriedFrame:
		n := trunk.Cost(len(b))
		if !e.flow.Receive(n) {
			return reason.Detail{Reason: reason.FabricOverrun, Expected: e.flow.Granted, Found: e.flow.Received}
		}
		e.flow.Taken += n
	case carriedPause:
		if k := new(ethernet.Control); !k.Parse(b[1:]) {
			return bad
		}
	case carriedCredit:
		if len(b) != creditLen || !e.flow.Raise(binary.BigEndian.Uint64(b[1:])) {
			return bad
		}
		return reason.Detail{}
	default:
		return bad
	}
	return e.net.lan.Trunks().Arrive(dcb.FromDuration(now), e.at, b[1:])
}

// reaches reports whether an address is one of a host in a fabric at the other end of a trunk.
func (n *ethernetNetwork) reaches(ip netip.Addr) bool {
	return n.trunks != nil && n.lan.Trunks().Reaches(ip)
}
