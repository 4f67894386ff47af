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
		m.arm()
	case arming:
		m.phase = activating
		m.activate()
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
	case m.again && active:
		m.startSweep()
	case m.state == smp.SMNotActive || m.now < m.next:
		return false
	case m.state == smp.SMStandby:
		m.poll()
	default:
		m.next = m.now + m.config.SweepInterval
		if m.status.Failures > 0 { // somebody did not answer: look again at everything
			m.startSweep()
			return true
		}
		m.lightSweep()
	}
	return true
}

// finishSweep ends a sweep of everything.
func (m *Manager) finishSweep() {
	m.phase = idle
	m.status.Sweeps++
	m.status.Failures = m.failures
	m.reregister = false
	if m.fabric != nil {
		m.announcePorts(m.announced)
		m.announced = m.admin.byGUID
	}
	m.next = m.now + m.config.SweepInterval
}
