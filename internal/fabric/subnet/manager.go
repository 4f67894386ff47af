package subnet

import (
	"time"

	"softrdma/internal/fabric/agent"
	"softrdma/internal/fabric/sm"
	"softrdma/internal/wire/mad/smp"
)

// managerPort is the port of an adapter at which its manager runs.
const managerPort = 1

// Manage runs a subnet manager at a node, nil for none: at port 0 of a switch, port 1 of an
// adapter. It gets the packets of queue pair 0 that are not the agents', instead of the
// node's program.
func (s *Subnet) Manage(now time.Duration, node int, m *sm.Manager) {
	s.now = max(s.now, now)
	x := s.members[node]
	x.manager = m
	x.agent.SetCapability(s.now, x.managerPort(), smp.CapSM, m != nil)
	s.schedule(x)
}

func (m *member) managerPort() int {
	if m.isSwitch {
		return 0
	}
	return managerPort
}

// managerTurn sends what the manager of a node wants to send.
func (s *Subnet) managerTurn(m *member) {
	var d sm.Departure
	for m.manager != nil && m.manager.Next(s.now, &d) {
		lid, _ := m.agent.LID(m.managerPort())
		in := agent.Arrival{Port: m.managerPort(), SLID: lid, DLID: d.DLID, SL: d.SL, QPN: smp.QPN, SourceQPN: smp.QPN, PKey: smp.DefaultPKey, MAD: &d.MAD}
		var out agent.Departure
		s.carryOut(m, &in, m.agent.Originate(s.now, &in, &out), &out)
	}
}

// take gives a management packet to the manager or the program of a node.
func (s *Subnet) take(m *member, in *agent.Arrival) {
	switch {
	case in.QPN == smp.QPN && m.manager != nil:
		m.manager.Receive(s.now, &sm.Arrival{SLID: in.SLID, SL: in.SL, MAD: in.MAD})
	case m.program != nil:
		m.program.MAD(s.now, in)
	}
}
