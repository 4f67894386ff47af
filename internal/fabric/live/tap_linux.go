package live

import (
	"math/bits"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// isSystem reports whether a system is attached, by whole frames.
func (a *attachment) isSystem() bool { return a.service.kind == hostport.WholeFrames }

// joinSystem lets the switch at the port of a system's interface speak LLDP to it: what the switch's port is
// set to, and what it recommends.
func (n *ethernetNetwork) joinSystem(a *attachment) {
	at := n.config.Fabric.Port(a.at).Peer
	c := n.lan.Port(at).Config()
	s := dcb.Settings{Selection: c.Selection, PFC: ethernet.PFC{Limit: ethernet.Priorities, Enable: c.Lossless}}
	if c.Lossless != 0 {
		s.Applications = []ethernet.Application{{Priority: uint8(bits.TrailingZeros8(c.Lossless)), Selector: ethernet.ByUDP, Number: ib.UDPPort}}
	}
	n.lan.Extras().SetAgent(dcb.FromDuration(n.now()), at, dcb.NewAgent(n.switchAddress(at), n.config.Fabric.PortName(n.names[at.Node], at), n.config.Name+"/"+n.names[at.Node], s))
}

func (n *ethernetNetwork) switchAddress(at topology.End) dcb.Address {
	return n.lan.Gateway(n.config.Fabric.Port(at).Peer.Node)
}

// leaveSystem ends joinSystem.
func (n *ethernetNetwork) leaveSystem(a *attachment) {
	n.lan.Extras().SetAgent(dcb.FromDuration(n.now()), n.config.Fabric.Port(a.at).Peer, nil)
}

// pausing shows a system each frame that pauses on the cable of its port, in both directions. The port
// obeys and sends them: the system does neither.
func (n *ethernetNetwork) pausing(_ dcb.Time, host int, f *dcb.Frame) {
	p := n.programs[host]
	if p == nil {
		return
	}
	if a := p.any(1); a != nil && a.isSystem() && !a.ended {
		k := ethernet.Control{Src: f.Src.MAC(), Op: f.Op, Enable: f.Enable, Quanta: f.Quanta}
		n.pauseFrame = k.Append(n.pauseFrame[:0])
		n.show(a, ethernet.Priorities-1, n.pauseFrame)
	}
}

// show gives a system a frame. Without room it is lost.
func (n *ethernetNetwork) show(a *attachment, level uint8, frame []byte) {
	if a.end.Room(level, 1, len(frame)) && a.end.Deliver(level, &fabric.Datagram{TOS: level << 5}, nil, frame) {
		a.heard(level)
	}
}

// overrun drops a frame of a system that the port does not take because its priority is paused, and reports
// whether it has. A system does not obey pauses: others of its frames would wait behind this one.
func (n *ethernetNetwork) overrun(now dcb.Time, a *attachment, x *input) bool {
	host := n.lan.Host(a.at.Node)
	if !a.isSystem() || host.Halted()&(1<<x.wired.Priority) == 0 {
		return false
	}
	host.Discard(now, x.wired)
	return true
}
