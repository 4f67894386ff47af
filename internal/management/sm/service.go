package sm

import (
	"slices"
	"time"

	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// maxServices is how many services the administrator keeps.
const maxServices = 1 << 14

// services are those that clients have registered.
type services struct {
	subnet  *subnet
	replies *replies
	list    []service
}

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
func (ss *services) endLeases(now time.Duration) {
	ss.list = slices.DeleteFunc(ss.list, func(s service) bool { return now >= s.end })
}

// setService adds or renews a service (IBTA 15.4.3).
func (ss *services) setService(q *query) {
	var r sa.ServiceRecord
	r.Parse(&q.data)
	mask := q.header.ComponentMask
	if mask&serviceID == 0 || mask&serviceGID == 0 {
		ss.replies.refuse(q, sa.StatusInvalid)
		return
	}
	if mask&serviceLease == 0 {
		r.Lease = endless
	}
	if mask&servicePKey == 0 {
		r.PKey = smp.DefaultPKey
	}
	if !ss.subnet.inPartition(q.from, r.PKey) {
		ss.replies.refuse(q, sa.StatusInvalid)
		return
	}
	ss.endLeases(q.now)
	s := service{r, Never}
	if r.Lease != endless {
		s.end = q.now + time.Duration(r.Lease)*time.Second
	}
	at := slices.IndexFunc(ss.list, func(s service) bool { return sameService(&s.record, &r) })
	switch {
	case at >= 0:
		ss.list[at] = s
	case len(ss.list) == maxServices:
		ss.replies.refuse(q, sa.StatusNoResources)
		return
	default:
		ss.list = append(ss.list, s)
	}
	ss.answerService(q, &r)
}

// deleteService ends the service that the identifier, GID and partition of a query name.
func (ss *services) deleteService(q *query) {
	ss.endLeases(q.now)
	found := slices.IndexFunc(ss.list, func(s service) bool {
		var b [sa.DataLen]byte
		s.record.Put(&b)
		return sa.Match(sa.AttrServiceRecord, q.header.ComponentMask&^serviceLease, &q.data, &b) && ss.subnet.inPartition(q.from, s.record.PKey)
	})
	if found < 0 {
		ss.replies.refuse(q, sa.StatusNoRecords)
		return
	}
	r := ss.list[found].record
	ss.list = slices.Delete(ss.list, found, found+1)
	ss.answerService(q, &r)
}

// answerService answers with a service. Its key is for trusted queries (IBTA 15.4.1.1).
func (ss *services) answerService(q *query, r *sa.ServiceRecord) {
	shown := *r
	if !q.trusted {
		shown.Key = [16]byte{}
	}
	ss.replies.answer1(q, &shown)
}

// serviceRecords answers with the services that a query names, of partitions that the
// requester is in.
func (ss *services) serviceRecords(q *query) {
	ss.endLeases(q.now)
	t := newTable(q)
	for i := range ss.list {
		s := &ss.list[i]
		r := s.record
		if s.end != Never { // what is left of the lease
			r.Lease = uint32((s.end - q.now + time.Second - 1) / time.Second)
		}
		var b [sa.DataLen]byte
		r.Put(&b)
		if !sa.Match(sa.AttrServiceRecord, q.header.ComponentMask&^serviceLease, &q.data, &b) || !ss.subnet.inPartition(q.from, r.PKey) {
			continue
		}
		if !q.trusted {
			r.Key = [16]byte{}
			r.Put(&b)
		}
		if !t.add(&b) {
			ss.replies.refuse(q, sa.StatusNoResources)
			return
		}
	}
	ss.replies.answerTable(q, t)
}
