package sm

import "softrdma/internal/wire/mad/smp"

// A phase is a part of a sweep. Each ends when all its requests are answered
// or given up, because the next depends on all of it.
type phase uint8

const (
	idle        phase = iota
	discovering       // ask every node and port
	programming       // LIDs of switches, tables
	arming            // LIDs of adapters, settings of links; Init to Armed
	activating        // Armed to Active
	looking           // light sweep
	polling           // a standby asks the master
)

// advance starts what follows when no request is left, and reports whether
// something was started.
func (m *Manager) advance() bool {
	switch m.phase {
	case discovering:
		m.discovered()
	case programming:
		m.phase = arming
		m.writer.arm()
	case arming:
		m.phase = activating
		m.writer.activate()
	case activating:
		m.finishSweep()
	case looking, polling:
		m.phase = idle
	case idle:
		return m.begin()
	}
	return true
}

// begin starts what is due.
func (m *Manager) begin() bool {
	active := m.state == smp.SMMaster || m.state == smp.SMDiscovering
	switch {
	case m.discovery.again && active:
		m.startSweep()
	case m.state == smp.SMNotActive || m.now < m.next:
		return false
	case m.state == smp.SMStandby:
		m.poll()
	default:
		m.next = m.now + m.config.SweepInterval
		if m.status.Failures > 0 { // a node did not answer: look at everything again
			m.startSweep()
			return true
		}
		m.phase = looking
		m.discovery.lightSweep()
	}
	return true
}

// startSweep begins to discover everything.
func (m *Manager) startSweep() {
	m.phase = discovering
	m.discovery.startSweep()
}

// configure numbers and routes what the sweep found, and starts to program switches.
func (m *Manager) configure() {
	m.phase = programming
	if !m.subnet.assign(m.discovery.order, &m.status) {
		return
	}
	m.writer.program()
	m.groups.createBroadcastGroups()
	m.writer.programMulticast(m.groups.sortedGroups())
}

// forget drops all requests without calling their functions, and the work of the administrator.
func (m *Manager) forget() {
	m.requests.forget()
	m.reader.reading, m.replies.transfers, m.notices.reports = 0, nil, nil
}

// finishSweep ends a sweep of everything.
func (m *Manager) finishSweep() {
	m.phase = idle
	m.status.Sweeps++
	m.status.Failures = m.requests.failures
	m.writer.reregister = false
	if m.subnet.fabric != nil {
		m.notices.announcePorts(m.announced, m.groups.endMemberships)
		m.announced = m.subnet.byGUID
	}
	m.next = m.now + m.config.SweepInterval
}
