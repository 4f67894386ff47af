package sm

import (
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

// notices are the subscriptions of clients to notices, and the reports on their way to them.
type notices struct {
	subnet   *subnet
	replies  *replies
	informed []subscription
	reports  []*report
	tid      uint64 // of the last report
}

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
func (ns *notices) subscribe(q *query) {
	var info sa.InformInfo
	info.Parse(&q.data)
	security := info.Generic != 0 && info.Number >= firstSecurityTrap && info.Number <= lastSecurityTrap
	if info.Subscribe > 1 || security && !q.trusted {
		ns.replies.refuse(q, sa.StatusInvalid)
		return
	}
	s := subscription{ns.subnet.gid(q.from), info, q.slid, q.sl}
	// IBTA 13.4.8.3: reports go to the sender of a subscription. QPN names the subscriber
	// when a subscription ends.
	if info.Subscribe == 1 || info.QPN == 0 {
		s.info.QPN = q.qpn
	}
	s.info.Subscribe, s.info.RespTime = 1, 0
	at := slices.IndexFunc(ns.informed, func(o subscription) bool { return o.subscriber == s.subscriber && o.info == s.info })
	switch {
	case info.Subscribe == 0 && at < 0:
		ns.replies.refuse(q, sa.StatusInvalid)
		return
	case info.Subscribe == 0:
		ns.informed = slices.Delete(ns.informed, at, at+1)
	case at >= 0:
		ns.informed[at] = s
	case len(ns.informed) == maxSubscriptions:
		ns.replies.refuse(q, sa.StatusNoResources)
		return
	default:
		ns.informed = append(ns.informed, s)
	}
	ns.replies.answer1(q, &info)
}

// subscriptionRecords yields the subscriptions.
func (ns *notices) subscriptionRecords(yield func(sa.Record)) {
	for i := range ns.informed {
		s := &ns.informed[i]
		yield(&sa.InformInfoRecord{Subscriber: s.subscriber, Info: s.info})
	}
}

// inform reports a notice to its subscribers.
func (ns *notices) inform(n *mad.Notice) {
	security := n.Generic && n.Number >= firstSecurityTrap && n.Number <= lastSecurityTrap
	for i := range ns.informed {
		s := &ns.informed[i]
		// A subscription to security traps by their numbers was trusted; one to all numbers need not have been.
		if !s.info.Wants(n) || security && s.info.Number == sa.AllNumbers || len(ns.reports) == maxReports {
			continue
		}
		ns.tid++
		h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion,
			Method: mad.MethodReport, TID: ns.tid, Attribute: mad.AttrNotice}, RMPP: rmpp.Header{Version: rmpp.Version}}
		r := &report{tid: ns.tid, out: Departure{DLID: s.lid, SL: s.sl, QPN: mad.GSIQPN, DestinationQPN: s.info.QPN}}
		h.Put(&r.out.MAD)
		n.Put((*[mad.NoticeLen]byte)(sa.Data(&r.out.MAD)[:]))
		ns.reports = append(ns.reports, r)
	}
}

// reported ends a report that its subscriber has received, and reports whether there is one.
func (ns *notices) reported(lid uint16, tid uint64) bool {
	at := slices.IndexFunc(ns.reports, func(r *report) bool { return r.tid == tid && r.out.DLID == lid })
	if at < 0 {
		return false
	}
	ns.reports = slices.Delete(ns.reports, at, at+1)
	return true
}

// sendReports writes the next report that is due, and reports whether there is one.
func (ns *notices) sendReports(now time.Duration, out *Departure) bool {
	ns.reports = slices.DeleteFunc(ns.reports, func(r *report) bool { return r.next <= now && r.tries == reportTries })
	for _, r := range ns.reports {
		if r.next <= now {
			r.tries++
			r.next = now + transferTimeout
			*out = r.out
			return true
		}
	}
	return false
}

// announce reports a notice of the manager itself about a GID (IBTA 14.2.5.1).
func (ns *notices) announce(number uint16, gid mad.GID) {
	n := mad.Notice{Generic: true, Type: mad.NoticeManagement, Producer: mad.ProducerManager, Number: number, IssuerLID: ns.subnet.ownLID()}
	n.IssuerGID = ns.subnet.gidOf(ns.subnet.config.GUID)
	copy(n.Details[6:], gid[:])
	ns.inform(&n)
}

// forward reports a trap of an agent.
func (ns *notices) forward(n mad.Notice) {
	if e, ok := ns.subnet.findLID(n.IssuerLID); ok {
		n.IssuerGID = ns.subnet.gid(e)
	}
	ns.inform(&n)
}

// announcePorts reports the ports that a sweep found or that have gone since the one before. It
// ends the subscriptions of those, and calls gone for each.
func (ns *notices) announcePorts(before map[uint64]topology.End, gone func(guid uint64)) {
	if before == nil { // no client can have subscribed before the first sweep
		return
	}
	ns.subnet.eachEnd(func(e topology.End, _ *node) {
		guid := ns.subnet.fabric.Port(e).GUID
		if _, ok := before[guid]; !ok {
			ns.announce(noticeInService, ns.subnet.gidOf(guid))
		}
	})
	for _, guid := range sortedKeys(before) {
		if _, ok := ns.subnet.byGUID[guid]; ok {
			continue
		}
		left := ns.subnet.gidOf(guid)
		ns.informed = slices.DeleteFunc(ns.informed, func(s subscription) bool { return s.subscriber == left })
		ns.announce(noticeOutOfService, left)
		gone(guid)
	}
}

// deadline is when a report has something to send.
func (ns *notices) deadline() time.Duration {
	d := Never
	for _, r := range ns.reports {
		d = min(d, r.next)
	}
	return d
}
