package subnet

import (
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/management/sm"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// managerPort is the port of an adapter at which its manager runs.
const managerPort = 1

// Manage runs a subnet manager at a node, or none if it is nil: at port 0 of a switch, port 1 of
// an adapter. It gets the packets of queue pair 0 that are not the agents', and the requests to
// the subnet administrator, instead of the node's program.
func (s *Subnet) Manage(now time.Duration, node int, m *sm.Manager) {
	s.now = max(s.now, now)
	x := s.members[node]
	x.manager = m
	x.agent.SetCapability(s.now, x.managerPort(), smp.CapSM, m != nil)
	s.schedule(x)
}

// SetManager stops a subnet manager that runs at a node, or lets it run again.
func (s *Subnet) SetManager(now time.Duration, m *sm.Manager, on bool) {
	s.now = max(s.now, now)
	for _, x := range s.members {
		if x.manager != m {
			continue
		}
		if on {
			m.Restart()
		} else {
			m.Stop()
		}
		x.agent.SetCapability(s.now, x.managerPort(), smp.CapSM, on)
		s.schedule(x)
	}
}

func (m *member) managerPort() int {
	if m.isSwitch {
		return 0
	}
	return managerPort
}

// managerTurn sends what the manager and administrator of a node want to send.
func (s *Subnet) managerTurn(m *member) {
	var d sm.Departure
	for m.manager != nil && m.manager.Next(s.now, &d) {
		port := m.managerPort()
		lid, _ := m.agent.LID(port)
		if d.QPN == mad.GSIQPN {
			s.sendMAD(m, &agent.Departure{Port: port, SLID: lid, DLID: d.DLID, SL: d.SL, QPN: d.DestinationQPN, SourceQPN: d.QPN,
				QKey: mad.GSIQKey, PKey: smp.DefaultPKey, MAD: d.MAD})
			continue
		}
		in := agent.Arrival{Port: port, SLID: lid, DLID: d.DLID, SL: d.SL, QPN: smp.QPN, SourceQPN: smp.QPN, PKey: smp.DefaultPKey, MAD: &d.MAD}
		var out agent.Departure
		s.carryOut(m, &in, m.agent.Originate(s.now, &in, &out), &out)
	}
}

// take gives a packet of queue pair 0 to the manager or the program of a node.
func (s *Subnet) take(m *member, in *agent.Arrival) {
	switch {
	case m.manager != nil:
		m.manager.Receive(s.now, &sm.Arrival{SLID: in.SLID, SL: in.SL, SourceQPN: in.SourceQPN, MAD: in.MAD})
	case m.program != nil:
		m.program.MAD(s.now, in)
	}
}

// administer gives a packet of queue pair 1 to the administrator of a node, and reports
// whether it was for it.
func (s *Subnet) administer(m *member, in *agent.Arrival) bool {
	return m.manager != nil && m.manager.Administer(s.now, &sm.Arrival{SLID: in.SLID, SL: in.SL, SourceQPN: in.SourceQPN, MAD: in.MAD})
}
