package sm

import (
	"encoding/binary"
	"slices"
	"time"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
)

// Notices of the manager itself (IBTA 14.2.5.1).
const (
	noticeInService    = 64 // a port has become reachable
	noticeOutOfService = 65
	noticeGroupCreated = 66
	noticeGroupDeleted = 67
)

// Security traps, of which trusted clients alone may learn (IBTA 15.4.1.2).
const (
	firstSecurityTrap = 256
	lastSecurityTrap  = 259
)

// Limits of subscriptions and of the reports that wait for a response.
const (
	maxSubscriptions = 1 << 12
	maxReports       = 1 << 12
	reportTries      = 3
)

// A subscription is a client that wants reports of notices.
type subscription struct {
	subscriber mad.GID
	info       sa.InformInfo // QPN is the client's
	lid        uint16
	sl         uint8
}

// A report is a notice on its way to a subscriber.
type report struct {
	out   Departure
	tid   uint64
	tries int
	next  time.Duration
}

// subscribe adds or ends a subscription (IBTA 13.4.11, 15.4.4).
func (m *Manager) subscribe(q *query) {
	var info sa.InformInfo
	info.Parse(&q.data)
	security := info.Generic != 0 && info.Number >= firstSecurityTrap && info.Number <= lastSecurityTrap
	if info.Subscribe > 1 || security && !q.trusted {
		m.refuse(q, sa.StatusInvalid)
		return
	}
	s := subscription{m.gid(q.from), info, q.slid, q.sl}
	// IBTA 13.4.8.3: reports go to the sender of a subscription. QPN names the subscriber
	// when a subscription ends.
	if info.Subscribe == 1 || info.QPN == 0 {
		s.info.QPN = q.qpn
	}
	s.info.Subscribe, s.info.RespTime = 1, 0
	at := slices.IndexFunc(m.admin.informed, func(o subscription) bool { return o.subscriber == s.subscriber && o.info == s.info })
	switch {
	case info.Subscribe == 0 && at < 0:
		m.refuse(q, sa.StatusInvalid)
		return
	case info.Subscribe == 0:
		m.admin.informed = slices.Delete(m.admin.informed, at, at+1)
	case at >= 0:
		m.admin.informed[at] = s
	case len(m.admin.informed) == maxSubscriptions:
		m.refuse(q, sa.StatusNoResources)
		return
	default:
		m.admin.informed = append(m.admin.informed, s)
	}
	m.answer1(q, &info)
}

// subscriptionRecords yields the subscriptions.
func (m *Manager) subscriptionRecords(yield func(sa.Record)) {
	for i := range m.admin.informed {
		s := &m.admin.informed[i]
		yield(&sa.InformInfoRecord{Subscriber: s.subscriber, Info: s.info})
	}
}

// inform reports a notice to its subscribers.
func (m *Manager) inform(n *mad.Notice) {
	security := n.Generic && n.Number >= firstSecurityTrap && n.Number <= lastSecurityTrap
	for i := range m.admin.informed {
		s := &m.admin.informed[i]
		// A subscription to security traps by their numbers was trusted; one to all numbers need not have been.
		if !s.info.Wants(n) || security && s.info.Number == sa.AllNumbers || len(m.admin.reports) == maxReports {
			continue
		}
		m.admin.tid++
		h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion,
			Method: mad.MethodReport, TID: m.admin.tid, Attribute: mad.AttrNotice}, RMPP: rmpp.Header{Version: rmpp.Version}}
		r := &report{tid: m.admin.tid, out: Departure{DLID: s.lid, SL: s.sl, QPN: mad.GSIQPN, DestinationQPN: s.info.QPN}}
		h.Put(&r.out.MAD)
		n.Put((*[mad.NoticeLen]byte)(sa.Data(&r.out.MAD)[:]))
		m.admin.reports = append(m.admin.reports, r)
	}
}

// reported ends a report that its subscriber has received, and reports whether there is one.
func (m *Manager) reported(lid uint16, tid uint64) bool {
	at := slices.IndexFunc(m.admin.reports, func(r *report) bool { return r.tid == tid && r.out.DLID == lid })
	if at < 0 {
		return false
	}
	m.admin.reports = slices.Delete(m.admin.reports, at, at+1)
	return true
}

// sendReports writes the next report that is due, and reports whether there is one.
func (m *Manager) sendReports(out *Departure) bool {
	m.admin.reports = slices.DeleteFunc(m.admin.reports, func(r *report) bool { return r.next <= m.now && r.tries == reportTries })
	for _, r := range m.admin.reports {
		if r.next <= m.now {
			r.tries++
			r.next = m.now + transferTimeout
			*out = r.out
			return true
		}
	}
	return false
}

// announce reports a notice of the manager itself about a GID (IBTA 14.2.5.1).
func (m *Manager) announce(number uint16, gid mad.GID) {
	n := mad.Notice{Generic: true, Type: mad.NoticeManagement, Producer: mad.ProducerManager, Number: number, IssuerLID: m.lids[m.config.GUID].lid}
	binary.BigEndian.PutUint64(n.IssuerGID[:], m.config.GIDPrefix)
	binary.BigEndian.PutUint64(n.IssuerGID[8:], m.config.GUID)
	copy(n.Details[6:], gid[:])
	m.inform(&n)
}

// forward reports a trap of an agent.
func (m *Manager) forward(n mad.Notice) {
	if e, ok := m.findLID(n.IssuerLID); ok {
		n.IssuerGID = m.gid(e)
	}
	m.inform(&n)
}

// announcePorts reports the ports that a sweep found or that have gone since the one before,
// and ends the subscriptions and memberships of those.
func (m *Manager) announcePorts(before map[uint64]topology.End) {
	if before == nil { // of the first sweep nobody can have subscribed
		return
	}
	gid := func(guid uint64) (g mad.GID) {
		binary.BigEndian.PutUint64(g[:], m.config.GIDPrefix)
		binary.BigEndian.PutUint64(g[8:], guid)
		return g
	}
	m.eachEnd(func(e topology.End, _ *node) {
		guid := m.fabric.Port(e).GUID
		if _, ok := before[guid]; !ok {
			m.announce(noticeInService, gid(guid))
		}
	})
	for _, guid := range sortedKeys(before) {
		if _, ok := m.admin.byGUID[guid]; ok {
			continue
		}
		gone := gid(guid)
		m.admin.informed = slices.DeleteFunc(m.admin.informed, func(s subscription) bool { return s.subscriber == gone })
		m.announce(noticeOutOfService, gone)
		m.endMemberships(guid)
	}
}
