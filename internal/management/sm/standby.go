package sm

import (
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A manager is another subnet manager.
type manager struct {
	info smp.SMInfo
	path []uint8
}

// readManager asks another manager for its state.
func (d *discovery) readManager(n *node, i int) {
	path := n.route(i)
	d.requests.get(path, smp.AttrSMInfo, 0, func(p *smp.Packet) {
		if p == nil {
			return
		}
		o := manager{path: path}
		o.info.Parse(&p.Data)
		if o.info.SMKey != d.config.SMKey { // it is not trusted, and takes no part in the election
			return
		}
		d.managers = append(d.managers, o)
	})
}

// precedes reports whether another manager is to be master rather than this one (IBTA 14.4.1).
func (m *Manager) precedes(o *smp.SMInfo) bool {
	if o.Priority != m.config.Priority {
		return o.Priority > m.config.Priority
	}
	return o.GUID < m.config.GUID
}

// discovered chooses the master when all nodes have answered or were given up (IBTA 14.4.1).
func (m *Manager) discovered() {
	var first *manager // the master, or else the manager that has to become it
	for i := range m.discovery.managers {
		o := &m.discovery.managers[i]
		active := o.info.State != smp.SMNotActive
		switch {
		case !active || o.info.State != smp.SMMaster && !m.precedes(&o.info):
		case first == nil || o.info.State == smp.SMMaster && first.info.State != smp.SMMaster:
			first = o
		}
	}
	if m.state == smp.SMDiscovering && first != nil {
		m.standBy(first)
		return
	}
	if m.state == smp.SMDiscovering {
		m.becomeMaster()
	}
	if first != nil && m.precedes(&first.info) && first.info.State != smp.SMDiscovering {
		m.handOver(first)
	}
	m.configure()
}

// becomeMaster makes this manager the one whose clients register again.
func (m *Manager) becomeMaster() {
	m.state, m.writer.reregister, m.master = smp.SMMaster, true, nil
	m.writer.forget()
	clear(m.groups.byMGID)
	m.services.list, m.notices.informed, m.notices.reports, m.replies.transfers = nil, nil, nil, nil
	m.subnet.byGUID, m.subnet.byLID, m.subnet.portKeys, m.announced = nil, nil, nil, nil
}

// standBy leaves the subnet to another manager, and polls it.
func (m *Manager) standBy(master *manager) {
	m.forget()
	m.state, m.phase, m.discovery.again, m.master, m.unanswered = smp.SMStandby, idle, false, master, 0
	m.next = m.now + m.config.PollInterval
}

// rediscover makes a standby sweep the fabric to find the master.
func (m *Manager) rediscover() {
	m.state, m.discovery.again, m.master = smp.SMDiscovering, true, nil
}

// poll asks the master whether it still is (IBTA 14.4.1.3).
func (m *Manager) poll() {
	m.next = m.now + m.config.PollInterval
	m.phase = polling
	asked := m.master
	m.requests.get(asked.path, smp.AttrSMInfo, 0, func(p *smp.Packet) {
		if m.state != smp.SMStandby || m.master != asked {
			return
		}
		if p == nil {
			m.unanswered++
			if m.unanswered >= m.config.PollRetries {
				m.rediscover()
			}
			return
		}
		m.unanswered = 0
		asked.info.Parse(&p.Data)
		if asked.info.State != smp.SMMaster {
			m.rediscover()
		}
	})
}

// handOver offers the subnet to a manager that precedes this one, and leaves it when the other
// takes it. Managers need not send the ACKNOWLEDGE of IBTA 14.4.1.3: opensm never does.
func (m *Manager) handOver(to *manager) {
	info := m.ownInfo()
	m.requests.set(to.path, smp.AttrSMInfo, smp.SMHandover, &info, func(p *smp.Packet) {
		if p != nil && m.state == smp.SMMaster {
			m.standBy(to)
		}
	})
}

func (m *Manager) ownInfo() smp.SMInfo {
	m.acts++
	return smp.SMInfo{GUID: m.config.GUID, SMKey: m.config.SMKey, ActCount: m.acts, Priority: m.config.Priority, State: m.state}
}

// smInfo answers another manager's question, or obeys its Set (IBTA 14.4.1.2).
func (m *Manager) smInfo(in *Arrival, p *smp.Packet) {
	r := *p
	r.Method, r.Status = mad.MethodGetResponse, mad.StatusOK
	var other smp.SMInfo
	other.Parse(&p.Data)
	if p.Method == mad.MethodSet && !m.obey(p, &other) {
		r.Status = mad.StatusInvalid
	}
	info := m.ownInfo()
	r.Data = [smp.DataLen]byte{}
	info.Put(&r.Data)
	m.answer(in, &r)
}

// answer sends a response back along the path of the request.
func (m *Manager) answer(in *Arrival, r *smp.Packet) {
	d := Departure{DLID: in.SLID, SL: in.SL}
	if r.Directed() {
		r.Returning, d.DLID = true, smp.PermissiveLID
	}
	r.Put(&d.MAD)
	m.replies.waiting = append(m.replies.waiting, d)
}

// obey performs the transition that a Set asks for, and reports whether the
// present state has one (IBTA 14.4.1.2, table of SMInfo controls).
func (m *Manager) obey(p *smp.Packet, other *smp.SMInfo) bool {
	switch {
	case other.SMKey != m.config.SMKey:
		return false
	case p.Modifier == smp.SMHandover && (m.state == smp.SMStandby || m.state == smp.SMMaster):
		m.takeOver(p)
	case p.Modifier == smp.SMAcknowledge && m.state == smp.SMMaster:
		m.standBy(m.discovery.find(other))
		if m.master == nil {
			m.rediscover()
		}
	case p.Modifier == smp.SMAcknowledge && m.state == smp.SMStandby && m.master != nil && m.master.info.GUID == other.GUID:
	case p.Modifier == smp.SMDisable && m.state == smp.SMStandby:
		m.forget()
		m.state, m.phase = smp.SMNotActive, idle
	case p.Modifier == smp.SMStandBy && m.state == smp.SMNotActive:
		m.rediscover()
	case p.Modifier == smp.SMDiscover && m.state == smp.SMStandby:
		m.rediscover()
	default:
		return false
	}
	return true
}

// takeOver becomes master in place of the sender, and acknowledges it along
// the path of its packet.
func (m *Manager) takeOver(p *smp.Packet) {
	if m.state == smp.SMStandby {
		m.forget()
		m.phase = idle
		m.becomeMaster()
	}
	m.discovery.again = true
	if !p.Directed() || p.HopCount > smp.MaxHops {
		return
	}
	hops := int(p.HopCount)
	path := make([]uint8, hops)
	for i := range path { // the last port of arrival is the first to leave by
		path[i] = p.Return[hops-i]
	}
	info := m.ownInfo()
	m.requests.set(path, smp.AttrSMInfo, smp.SMAcknowledge, &info, func(*smp.Packet) {})
}

// find returns the manager that the last sweep found with a GUID.
func (d *discovery) find(info *smp.SMInfo) *manager {
	for i := range d.managers {
		if d.managers[i].info.GUID == info.GUID {
			return &d.managers[i]
		}
	}
	return nil
}
