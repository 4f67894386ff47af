package sm

import (
	"encoding/binary"
	"time"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// An administrator answers queries: records of what the manager knows itself, the rest each
// subject for itself.
type administrator struct {
	subnet    *subnet
	discovery *discovery
	writer    *writer
	replies   *replies
	groups    *groups
	services  *services
	notices   *notices
	paths     *pathFinder
	reader    *tableReader
	ownInfo   func() smp.SMInfo
}

// A query is a request to the administrator.
type query struct {
	now     time.Duration
	header  sa.Header
	data    [sa.DataLen]byte
	slid    uint16
	sl      uint8
	qpn     uint32
	from    topology.End // the port with slid
	trusted bool         // it has the key of the configuration

	capabilities smp.Capability // that the ports of its answer have at least
}

// Administer handles a datagram for the subnet administrator (IBTA chapter 15),
// which came to queue pair 1, and reports whether it was one. Only the master
// takes requests. The answer leaves by Next.
func (m *Manager) Administer(now time.Duration, in *Arrival) bool {
	m.now = now
	q := query{now: now, data: *sa.Data(in.MAD), slid: in.SLID, sl: in.SL, qpn: in.SourceQPN}
	q.header.Parse(in.MAD)
	h := &q.header
	switch {
	case m.state != smp.SMMaster || h.MAD.Class != mad.ClassAdministration:
		return false
	case h.MAD.Method == mad.MethodReportResponse:
		return m.notices.reported(in.SLID, h.MAD.TID)
	case !isRequest(h.MAD.Method):
		return false
	case h.RMPP.Flags&rmpp.Active != 0 && h.RMPP.Type != rmpp.Data:
		m.replies.acknowledged(&q)
		return true
	case h.SMKey != 0 && h.SMKey != m.config.AdministrationKey: // IBTA 15.2.1.1: discarded without an answer
		return true
	}
	q.trusted = h.SMKey != 0
	switch at, ok := m.subnet.findLID(in.SLID); {
	case h.MAD.BaseVersion != mad.BaseVersion || h.MAD.ClassVersion != sa.ClassVersion:
		m.replies.refuse(&q, mad.StatusVersion)
	case m.subnet.fabric == nil: // no sweep has ended
		m.replies.refuse(&q, mad.StatusBusy)
	case !ok:
		m.replies.refuse(&q, sa.StatusInvalid)
	default:
		q.from = at
		m.admin.administer(&q)
	}
	return true
}

// isRequest reports whether a method is one of those that an administrator answers (IBTA 15.2.2).
func isRequest(method uint8) bool {
	switch method {
	case mad.MethodGet, mad.MethodSet, mad.MethodGetTable, mad.MethodGetTraceTable, mad.MethodGetMulti, mad.MethodDelete:
		return true
	}
	return false
}

// administer answers a query, at once or when the tables that it asks for have been read.
func (a *administrator) administer(q *query) {
	type operation struct {
		method    uint8
		attribute mad.AttributeID
	}
	h := &q.header.MAD
	switch (operation{h.Method, h.Attribute}) {
	case operation{mad.MethodGet, mad.AttrClassPortInfo}:
		a.replies.answer1(q, &classPortInfo{mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: sa.ClassVersion, RespTime: pathLifeTime,
			CapabilityMask: sa.CapOptionalRecords | sa.CapMulticast | sa.CapMultiPath | sa.CapPortInfoCapMatches}})
	case operation{mad.MethodGetMulti, sa.AttrMultiPathRecord}:
		a.paths.multiPath(q)
	case operation{mad.MethodSet, sa.AttrMCMemberRecord}:
		a.groups.join(q)
	case operation{mad.MethodDelete, sa.AttrMCMemberRecord}:
		a.groups.leave(q)
	case operation{mad.MethodSet, sa.AttrServiceRecord}:
		a.services.setService(q)
	case operation{mad.MethodDelete, sa.AttrServiceRecord}:
		a.services.deleteService(q)
	case operation{mad.MethodSet, mad.AttrInformInfo}:
		a.notices.subscribe(q)
	default:
		if h.Method != mad.MethodGet && h.Method != mad.MethodGetTable {
			a.replies.refuse(q, mad.StatusMethodAttribute)
			return
		}
		a.lookUp(q)
	}
}

// lookUp answers a Get, which has exactly one record, or a GetTable.
func (a *administrator) lookUp(q *query) {
	q.baseLIDs(a.subnet)
	switch q.header.MAD.Attribute {
	case sa.AttrPathRecord:
		a.paths.paths(q)
	case sa.AttrMCMemberRecord:
		a.groups.memberRecords(q)
	case sa.AttrServiceRecord:
		a.services.serviceRecords(q)
	case sa.AttrInformInfoRecord:
		a.replies.answerMatches(q, a.notices.subscriptionRecords)
	case sa.AttrNodeRecord:
		a.replies.answerMatches(q, a.nodeRecords)
	case sa.AttrPortInfoRecord:
		q.portCapabilities()
		a.replies.answerMatches(q, a.portRecords(q))
	case sa.AttrSwitchInfoRecord:
		a.replies.answerMatches(q, a.switchRecords)
	case sa.AttrLinkRecord:
		a.replies.answerMatches(q, a.linkRecords)
	case sa.AttrLinearForwardingRecord:
		a.replies.answerMatches(q, a.linearRecords)
	case sa.AttrMulticastForwardingRecord:
		a.replies.answerMatches(q, a.multicastRecords)
	case sa.AttrSMInfoRecord:
		a.replies.answerMatches(q, a.managerRecords)
	case sa.AttrSLtoVLRecord, sa.AttrVLArbitrationRecord, sa.AttrPKeyTableRecord, sa.AttrGUIDInfoRecord:
		a.reader.readTables(q)
	default:
		a.replies.refuse(q, mad.StatusMethodAttribute)
	}
}

// baseLIDs replaces the LIDs of a query by the base LIDs of their ports, which records have.
func (q *query) baseLIDs(s *subnet) {
	places := []int{0}
	switch q.header.MAD.Attribute {
	case sa.AttrLinkRecord:
		places = append(places, 4)
	case sa.AttrPathRecord, sa.AttrMCMemberRecord, sa.AttrServiceRecord, sa.AttrInformInfoRecord:
		return
	}
	for _, at := range places {
		if e, ok := s.findLID(binary.BigEndian.Uint16(q.data[at:])); ok {
			binary.BigEndian.PutUint16(q.data[at:], s.fabric.Port(e).LID)
		}
	}
}

// A classPortInfo is a ClassPortInfo as the administrator's records are.
type classPortInfo struct{ mad.ClassPortInfo }

// Parse and Put implement sa.Record.
func (c *classPortInfo) Parse(b *[sa.DataLen]byte) {
	c.ClassPortInfo.Parse((*[mad.ClassPortInfoLen]byte)(b[:]))
}

// Put writes the attribute.
func (c *classPortInfo) Put(b *[sa.DataLen]byte) {
	c.ClassPortInfo.Put((*[mad.ClassPortInfoLen]byte)(b[:]))
}
