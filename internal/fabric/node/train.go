package node

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad/smp"
)

// An End is an end of a link: a port of a node.
type End struct {
	Node *Node
	Port int
}

// Train is link training between two ports, whose hardware supports the widths and speeds
// of supported. If one of them is down, the other goes down as well. If both look for a
// neighbor and have a width and a speed in common, the link comes up with the fastest of
// them. Call it when a cable is plugged in, and after the state of one of the ports has
// changed (Config.Changed). It reports whether the link is up.
func Train(now time.Duration, a, b End, supported hardware.Link) bool {
	if a.up() && b.up() {
		return true
	}
	for _, e := range [...]End{a, b} {
		if e.up() {
			e.Node.Disconnect(now, e.Port)
		}
	}
	l, ok := port.Negotiate(a.Node.PortConfig(a.Port), b.Node.PortConfig(b.Port), supported)
	if !ok || !a.Node.ports[a.Port].Trainable() || !b.Node.ports[b.Port].Trainable() {
		return false
	}
	a.Node.Connect(now, a.Port, l)
	b.Node.Connect(now, b.Port, l)
	return true
}

func (e End) up() bool { return e.Node.Link(e.Port).Physical == smp.PhysicalLinkUp }
