package sm

import (
	"slices"
	"time"

	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// maxServices is how many services the administrator keeps.
const maxServices = 1 << 14

// A service is a ServiceRecord that a client has set.
type service struct {
	record sa.ServiceRecord
	end    time.Duration // of the lease
}

// endless is a ServiceLease that does not end (IBTA 15.2.5.14).
const endless = 1<<32 - 1

// Components of a ServiceRecord that Set and Delete need or that have a default.
const (
	serviceID    = 1 << 0
	serviceGID   = 1 << 1
	servicePKey  = 1 << 2
	serviceLease = 1 << 4
	serviceName  = 1 << 6
)

// sameService reports whether two records are of the same service (IBTA 15.2.5.14: its
// identifier, GID and partition are the key).
func sameService(a, b *sa.ServiceRecord) bool {
	return a.ServiceID == b.ServiceID && a.GID == b.GID && a.PKey == b.PKey
}

// endLeases forgets the services whose leases have ended.
func (m *Manager) endLeases() {
	m.admin.services = slices.DeleteFunc(m.admin.services, func(s service) bool { return m.now >= s.end })
}

// setService adds or renews a service (IBTA 15.4.3).
func (m *Manager) setService(q *query) {
	var r sa.ServiceRecord
	r.Parse(&q.data)
	mask := q.header.ComponentMask
	if mask&serviceID == 0 || mask&serviceGID == 0 {
		m.refuse(q, sa.StatusInvalid)
		return
	}
	if mask&serviceLease == 0 {
		r.Lease = endless
	}
	if mask&servicePKey == 0 {
		r.PKey = smp.DefaultPKey
	}
	if !m.inPartition(q.from, r.PKey) {
		m.refuse(q, sa.StatusInvalid)
		return
	}
	m.endLeases()
	s := service{r, Never}
	if r.Lease != endless {
		s.end = m.now + time.Duration(r.Lease)*time.Second
	}
	at := slices.IndexFunc(m.admin.services, func(s service) bool { return sameService(&s.record, &r) })
	switch {
	case at >= 0:
		m.admin.services[at] = s
	case len(m.admin.services) == maxServices:
		m.refuse(q, sa.StatusNoResources)
		return
	default:
		m.admin.services = append(m.admin.services, s)
	}
	m.answerService(q, &r)
}

// deleteService ends the service that the identifier, GID and partition of a query name.
func (m *Manager) deleteService(q *query) {
	m.endLeases()
	found := slices.IndexFunc(m.admin.services, func(s service) bool {
		var b [sa.DataLen]byte
		s.record.Put(&b)
		return sa.Match(sa.AttrServiceRecord, q.header.ComponentMask&^serviceLease, &q.data, &b) && m.inPartition(q.from, s.record.PKey)
	})
	if found < 0 {
		m.refuse(q, sa.StatusNoRecords)
		return
	}
	r := m.admin.services[found].record
	m.admin.services = slices.Delete(m.admin.services, found, found+1)
	m.answerService(q, &r)
}

// answerService answers with a service. Its key is for trusted queries (IBTA 15.4.1.1).
func (m *Manager) answerService(q *query, r *sa.ServiceRecord) {
	shown := *r
	if !q.trusted {
		shown.Key = [16]byte{}
	}
	m.answer1(q, &shown)
}

// serviceRecords answers with the services that a query names, of partitions that the
// requester is in.
func (m *Manager) serviceRecords(q *query) {
	m.endLeases()
	t := newTable(q)
	for i := range m.admin.services {
		s := &m.admin.services[i]
		r := s.record
		if s.end != Never { // what is left of the lease
			r.Lease = uint32((s.end - m.now + time.Second - 1) / time.Second)
		}
		var b [sa.DataLen]byte
		r.Put(&b)
		if !sa.Match(sa.AttrServiceRecord, q.header.ComponentMask&^serviceLease, &q.data, &b) || !m.inPartition(q.from, r.PKey) {
			continue
		}
		if !q.trusted {
			r.Key = [16]byte{}
			r.Put(&b)
		}
		if !t.add(&b) {
			m.refuse(q, sa.StatusNoResources)
			return
		}
	}
	m.answerTable(q, t)
}
