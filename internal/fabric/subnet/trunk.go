package subnet

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
)

// A Trunk is the other end of a cable that leads out of the subnet. It is called from within
// Run, and may call Join, Leave and Arrive.
type Trunk interface {
	// Send gets a frame that leaves the port. It keeps nothing of it.
	Send(frame []byte)

	// Changed tells that the state of the port's link, or whether it looks for a neighbor, may
	// have changed.
	Changed()

	// String names what the trunk leads to.
	String() string
}

// SetTrunk plugs a trunk into a port that has no cable. The port gets the largest buffers that
// credits can describe, because a network has a longer delay than a cable.
func (s *Subnet) SetTrunk(now time.Duration, at topology.End, t Trunk) {
	s.now = max(s.now, now)
	s.cable(at).trunk = t
	s.members[at.Node].node.SetBuffer(at.Port, port.MaxBuffer)
	s.changed = append(s.changed, at)
}

// Trunk returns the trunk of a port, nil if there is none.
func (n *nodes) Trunk(at topology.End) Trunk { return n.cable(at).trunk }

// Polls reports whether the port of a trunk looks for a neighbor.
func (n *nodes) Polls(at topology.End) bool { return !n.cable(at).cut && n.polls(at) }

// Join is the end of the training of a trunk's link: its port gets a link, if it looks for a
// neighbor.
func (s *Subnet) Join(now time.Duration, at topology.End, l hardware.Link) {
	s.now = max(s.now, now)
	m := s.members[at.Node]
	if s.Polls(at) {
		m.node.Connect(s.now, at.Port, l)
	}
	s.schedule(m)
}

// Leave takes the link of a trunk's port down.
func (s *Subnet) Leave(now time.Duration, at topology.End) {
	s.now = max(s.now, now)
	s.lose(at)
}

// Arrive gives the port of a trunk a frame. The subnet owns it.
func (s *Subnet) Arrive(now time.Duration, at topology.End, frame []byte) {
	s.now = max(s.now, now)
	m := s.members[at.Node]
	m.node.Receive(s.now, at.Port, frame)
	s.schedule(m)
}

// Supported has the widths and speeds that the ports of a node can have.
func (n *nodes) Supported(node int) hardware.Link { return supported(&n.config.Fabric.Nodes[node]) }
