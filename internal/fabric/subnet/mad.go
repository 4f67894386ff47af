package subnet

import (
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// deliver sorts the packets that end at a node: those of queue pairs 0 and 1 wait for the
// agents, the others are the program's.
func (s *Subnet) deliver(m *member, port int, frame []byte) bool {
	var n ib.Native
	if n.Parse(frame) == ib.OK && n.LRH.Next >= ib.LocalBTH && queuePair(n.Body) <= mad.GSIQPN {
		if len(m.held) > 0 && queuePair(n.Body) == mad.GSIQPN {
			return false
		}
		m.inbox = append(m.inbox, frameAt{port, frame})
		return true
	}
	switch {
	case m.stalled>>n.LRH.SL&1 != 0:
		return false
	case s.arrived(n.Body):
		s.pool.Recycle(frame)
		return true
	case m.program != nil:
		return m.program.Packet(s.now, port, frame)
	}
	s.Unwanted(topology.End{Node: m.index, Port: port}, frame)
	return true
}

// offer gives a packet of queue pair 1 to the node's program.
func (s *Subnet) offer(m *member, f frameAt) {
	switch {
	case m.program == nil:
		s.Unwanted(topology.End{Node: m.index, Port: f.port}, f.frame)
	case len(m.held) > 0 || !m.program.Packet(s.now, f.port, f.frame):
		m.held = append(m.held, f)
	}
}

// queuePair is the destination of a packet that has a BTH.
func queuePair(bth []byte) uint32 {
	if len(bth) < ib.BTHLen {
		return ib.DestQPNMask
	}
	return uint32(bth[5])<<16 | uint32(bth[6])<<8 | uint32(bth[7])
}

func (s *Subnet) drop(m *member, port int, d reason.Detail) {
	if s.config.Dropped != nil {
		s.config.Dropped(topology.End{Node: m.index, Port: port}, d)
	}
}

// manage lets the agents of a node act on the management packets that came, and sends traps
// that are due and the packets of its manager.
func (s *Subnet) manage(m *member) {
	for len(m.inbox) > 0 {
		f := m.inbox[0]
		if m.inbox = m.inbox[1:]; len(m.inbox) == 0 {
			m.inbox = nil
		}
		if s.receiveMAD(m, f.port, f.frame) {
			s.offer(m, f)
		} else {
			s.pool.Recycle(f.frame)
		}
	}
	if m.agent.Deadline() <= s.now {
		m.agent.Expire(s.now)
	}
	for m.agent.Deadline() <= s.now {
		var out agent.Departure
		o, ok := m.agent.Trap(s.now, &out)
		if !ok {
			break
		}
		s.carryOut(m, &agent.Arrival{Port: out.Port, SLID: out.SLID, DLID: out.DLID}, o, &out)
	}
	if m.manager != nil && m.manager.Deadline() <= s.now {
		s.managerTurn(m)
	}
	s.drain(m)
}

// receiveMAD gives a management packet to a node's agents and administrator. It reports
// whether the packet is one of queue pair 1 for the node's program.
func (s *Subnet) receiveMAD(m *member, port int, frame []byte) (program bool) {
	var n ib.Native
	var p ib.Packet
	if n.Parse(frame) != ib.OK || p.Parse(n.Body) != ib.OK || len(p.Payload) != mad.Len || p.Opcode != ib.UDSendOnly {
		s.drop(m, port, reason.Detail{Reason: reason.PacketLRHLength, Expected: mad.Len, Found: uint64(len(p.Payload))})
		return false
	}
	if want := ib.NativeICRC(frame[:len(frame)-ib.VCRCLen]); want != ib.ICRC(n.Body) {
		s.drop(m, port, reason.Detail{Reason: reason.PacketICRC, Expected: uint64(want), Found: uint64(ib.ICRC(n.Body))})
		return false
	}
	if p.DestQPN == mad.GSIQPN && p.DETH.QKey != mad.GSIQKey { // IBTA 10.2.5
		s.drop(m, port, reason.Detail{Reason: reason.PacketQKey, Expected: mad.GSIQKey, Found: uint64(p.DETH.QKey)})
		if v, ok := violation(frame); ok {
			v.Key = p.DETH.QKey
			m.agent.QKeyViolation(s.now, m.endPort(port), &v)
		}
		return false
	}
	in := agent.Arrival{
		Port: port, SLID: uint16(n.LRH.SLID), DLID: uint16(n.LRH.DLID), SL: n.LRH.SL, QPN: p.DestQPN, SourceQPN: p.DETH.SrcQPN,
		PKey: p.PKey, MAD: (*[mad.Len]byte)(p.Payload),
	}
	var out agent.Departure
	o := m.agent.Receive(s.now, &in, &out)
	if in.QPN == mad.GSIQPN && o == agent.Local {
		return !s.administer(m, &in)
	}
	s.carryOut(m, &in, o, &out)
	if in.QPN == smp.QPN && in.MAD[methodAt] == mad.MethodSet {
		m.notify(port, 0)
	}
	return false
}

// methodAt is where a management packet has its method (IBTA 13.4.2).
const methodAt = 3

// SendMAD sends a management packet of a node's program. Port is that of an adapter, or 0 of
// a switch. A packet of queue pair 0 may be for the node itself.
func (s *Subnet) SendMAD(now time.Duration, node int, out *agent.Departure) {
	s.now = max(s.now, now)
	m := s.members[node]
	if out.QPN == smp.QPN {
		in := agent.Arrival{Port: out.Port, SLID: out.SLID, DLID: out.DLID, SL: out.SL, QPN: out.QPN, SourceQPN: out.SourceQPN, PKey: out.PKey, MAD: &out.MAD}
		var next agent.Departure
		s.carryOut(m, &in, m.agent.Originate(s.now, &in, &next), &next)
	} else {
		s.sendMAD(m, out)
	}
	s.schedule(m)
}

// carryOut does what an agent decided.
func (s *Subnet) carryOut(m *member, in *agent.Arrival, o agent.Outcome, out *agent.Departure) {
	switch o {
	case agent.Send:
		s.sendMAD(m, out)
	case agent.Local:
		own := *in
		own.MAD = &out.MAD
		s.take(m, &own)
	case agent.Discard:
		if out.Reason.Reason != reason.None {
			s.drop(m, in.Port, out.Reason)
		}
	}
}

// sendMAD puts a management packet into a frame (IBTA 13.5.1, 14.2.1) and sends it.
func (s *Subnet) sendMAD(m *member, out *agent.Departure) {
	h := ib.LRH{SL: out.SL, Next: ib.LocalBTH, DLID: ib.LID(out.DLID), SLID: ib.LID(out.SLID)}
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: out.PKey, DestQPN: out.QPN}, Payload: out.MAD[:]}
	p.DETH = ib.DETH{SrcQPN: out.SourceQPN}
	if out.QPN == smp.QPN {
		h.VL, p.PKey = ib.ManagementVL, smp.DefaultPKey
	} else {
		p.DETH.QKey = out.QKey
	}
	frame := ib.AppendNative(s.pool.Buffer(0), h, nil, &p)
	if s.config.Port.NoVCRC {
		clear(frame[len(frame)-ib.VCRCLen:])
	}
	if !m.node.Send(s.now, out.Port, frame) {
		s.pool.Recycle(frame)
		s.drop(m, out.Port, reason.Detail{Reason: reason.FabricPortState})
	}
}

// endPort is the end port to which a packet at a port belongs.
func (m *member) endPort(port int) int {
	if m.isSwitch {
		return 0
	}
	return port
}

// violated makes the agent of a node report a packet whose P_Key a port refuses.
func (s *Subnet) violated(m *member, port int, frame []byte) {
	if v, ok := violation(frame); ok {
		m.agent.PKeyViolation(s.now, port, &v)
	}
}

// violation is what a trap says of a packet. Only datagrams name the queue pair that sent them.
func violation(frame []byte) (v agent.Violation, ok bool) {
	var n ib.Native
	var p ib.Packet
	if n.Parse(frame) != ib.OK || n.LRH.Next < ib.LocalBTH || len(n.Body) < ib.BTHLen {
		return v, false
	}
	if p.Parse(n.Body) != ib.OK {
		p = ib.Packet{}
		p.BTH.Parse(n.Body)
	}
	v = agent.Violation{SLID: uint16(n.LRH.SLID), DLID: uint16(n.LRH.DLID), SL: n.LRH.SL, SourceQPN: p.DETH.SrcQPN, DestinationQPN: p.DestQPN, Key: uint32(p.PKey)}
	if n.LRH.Next == ib.GlobalGRH {
		v.Global, v.Source, v.Destination = true, n.GRH.SGID, n.GRH.DGID
	}
	return v, true
}
