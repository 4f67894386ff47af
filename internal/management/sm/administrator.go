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

// An administrator is the state of subnet administration.
type administrator struct {
	byGUID    map[uint64]topology.End // the ports with LIDs
	byLID     map[uint16]topology.End
	keys      map[uint64][]uint16 // of these ports, by GUID
	transfers []*transfer
	reading   int // blocks that are being read for queries
	services  []service
	informed  []subscription
	reports   []*report
	tid       uint64 // of the last report
}

// A query is a request to the administrator.
type query struct {
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
	q := query{data: *sa.Data(in.MAD), slid: in.SLID, sl: in.SL, qpn: in.SourceQPN}
	q.header.Parse(in.MAD)
	h := &q.header
	switch {
	case m.state != smp.SMMaster || h.MAD.Class != mad.ClassAdministration:
		return false
	case h.MAD.Method == mad.MethodReportResponse:
		return m.reported(in.SLID, h.MAD.TID)
	case !isRequest(h.MAD.Method):
		return false
	case h.RMPP.Flags&rmpp.Active != 0 && h.RMPP.Type != rmpp.Data:
		m.acknowledged(&q)
		return true
	case h.SMKey != 0 && h.SMKey != m.config.AdministrationKey: // IBTA 15.2.1.1: discarded without an answer
		return true
	}
	q.trusted = h.SMKey != 0
	switch at, ok := m.findLID(in.SLID); {
	case h.MAD.BaseVersion != mad.BaseVersion || h.MAD.ClassVersion != sa.ClassVersion:
		m.refuse(&q, mad.StatusVersion)
	case m.fabric == nil: // no sweep has ended
		m.refuse(&q, mad.StatusBusy)
	case !ok:
		m.refuse(&q, sa.StatusInvalid)
	default:
		q.from = at
		m.administer(&q)
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
func (m *Manager) administer(q *query) {
	type operation struct {
		method    uint8
		attribute mad.AttributeID
	}
	h := &q.header.MAD
	switch (operation{h.Method, h.Attribute}) {
	case operation{mad.MethodGet, mad.AttrClassPortInfo}:
		m.answer1(q, &classPortInfo{mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: sa.ClassVersion, RespTime: pathLifeTime,
			CapabilityMask: sa.CapOptionalRecords | sa.CapMulticast | sa.CapMultiPath | sa.CapPortInfoCapMatches}})
	case operation{mad.MethodGetMulti, sa.AttrMultiPathRecord}:
		m.multiPath(q)
	case operation{mad.MethodSet, sa.AttrMCMemberRecord}:
		m.join(q)
	case operation{mad.MethodDelete, sa.AttrMCMemberRecord}:
		m.leave(q)
	case operation{mad.MethodSet, sa.AttrServiceRecord}:
		m.setService(q)
	case operation{mad.MethodDelete, sa.AttrServiceRecord}:
		m.deleteService(q)
	case operation{mad.MethodSet, mad.AttrInformInfo}:
		m.subscribe(q)
	default:
		if h.Method != mad.MethodGet && h.Method != mad.MethodGetTable {
			m.refuse(q, mad.StatusMethodAttribute)
			return
		}
		m.lookUp(q)
	}
}

// lookUp answers a Get, which has exactly one record, or a GetTable.
func (m *Manager) lookUp(q *query) {
	q.baseLIDs(m)
	switch q.header.MAD.Attribute {
	case sa.AttrPathRecord:
		m.paths(q)
	case sa.AttrMCMemberRecord:
		m.memberRecords(q)
	case sa.AttrServiceRecord:
		m.serviceRecords(q)
	case sa.AttrInformInfoRecord:
		m.answerMatches(q, m.subscriptionRecords)
	case sa.AttrNodeRecord:
		m.answerMatches(q, m.nodeRecords)
	case sa.AttrPortInfoRecord:
		q.portCapabilities()
		m.answerMatches(q, m.portRecords(q))
	case sa.AttrSwitchInfoRecord:
		m.answerMatches(q, m.switchRecords)
	case sa.AttrLinkRecord:
		m.answerMatches(q, m.linkRecords)
	case sa.AttrLinearForwardingRecord:
		m.answerMatches(q, m.linearRecords)
	case sa.AttrMulticastForwardingRecord:
		m.answerMatches(q, m.multicastRecords)
	case sa.AttrSMInfoRecord:
		m.answerMatches(q, m.managerRecords)
	case sa.AttrSLtoVLRecord, sa.AttrVLArbitrationRecord, sa.AttrPKeyTableRecord, sa.AttrGUIDInfoRecord:
		m.readTables(q)
	default:
		m.refuse(q, mad.StatusMethodAttribute)
	}
}

// baseLIDs replaces the LIDs of a query by the base LIDs of their ports, which records have.
func (q *query) baseLIDs(m *Manager) {
	places := []int{0}
	switch q.header.MAD.Attribute {
	case sa.AttrLinkRecord:
		places = append(places, 4)
	case sa.AttrPathRecord, sa.AttrMCMemberRecord, sa.AttrServiceRecord, sa.AttrInformInfoRecord:
		return
	}
	for _, at := range places {
		if e, ok := m.findLID(binary.BigEndian.Uint16(q.data[at:])); ok {
			binary.BigEndian.PutUint16(q.data[at:], m.fabric.Port(e).LID)
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

// findEnd returns the port that has a GID of this subnet.
func (m *Manager) findEnd(gid mad.GID) (topology.End, bool) {
	if binary.BigEndian.Uint64(gid[:]) != m.config.GIDPrefix {
		return topology.End{}, false
	}
	e, ok := m.admin.byGUID[binary.BigEndian.Uint64(gid[8:])]
	return e, ok
}

// findLID returns the port that has a LID.
func (m *Manager) findLID(lid uint16) (topology.End, bool) {
	e, ok := m.admin.byLID[lid]
	return e, ok
}

// indexEnds makes the ports of a new fabric known to the administrator.
func (m *Manager) indexEnds() {
	m.admin.byGUID, m.admin.byLID, m.admin.keys = make(map[uint64]topology.End), make(map[uint16]topology.End), make(map[uint64][]uint16)
	m.eachEnd(func(e topology.End, _ *node) {
		p := m.fabric.Port(e)
		m.admin.byGUID[p.GUID], m.admin.keys[p.GUID] = e, m.keys(p.GUID)
		for i := range 1 << p.LMC {
			m.admin.byLID[p.LID+uint16(i)] = e
		}
	})
}

// gid is the GID of a port.
func (m *Manager) gid(e topology.End) (g mad.GID) {
	binary.BigEndian.PutUint64(g[:], m.config.GIDPrefix)
	binary.BigEndian.PutUint64(g[8:], m.fabric.Port(e).GUID)
	return g
}
