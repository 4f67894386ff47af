package sm

import (
	"encoding/binary"
	"time"

	"softrdma/internal/fabric/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// Administer answers a datagram for the subnet administrator (IBTA chapter 15),
// which came to queue pair 1, and reports whether there is an answer. Only the
// master answers. Queries have one record as answer (Get); tables are refused.
func (m *Manager) Administer(now time.Duration, in *Arrival, out *Departure) bool {
	m.now = now
	var h sa.Header
	h.Parse(in.MAD)
	if m.state != smp.SMMaster || h.MAD.Class != mad.ClassAdministration || h.MAD.Method&mad.ResponseBit != 0 {
		return false
	}
	query := *sa.Data(in.MAD)
	*out = Departure{DLID: in.SLID, SL: in.SL}
	record := sa.Data(&out.MAD)
	switch {
	case h.MAD.BaseVersion != mad.BaseVersion || h.MAD.ClassVersion != sa.ClassVersion:
		h.MAD.Status = mad.StatusVersion
	case m.fabric == nil: // no sweep has ended
		h.MAD.Status = mad.StatusBusy
	default:
		h.MAD.Status = m.administer(in, &h, &query, record)
	}
	h.MAD.Method |= mad.ResponseBit
	if h.MAD.Method == mad.MethodSet|mad.ResponseBit { // IBTA 15.2.2: Get and Set share the response
		h.MAD.Method = mad.MethodGetResponse
	}
	h.Put(&out.MAD)
	return true
}

// administer writes the record that answers a query, and returns the status.
func (m *Manager) administer(in *Arrival, h *sa.Header, query, record *[sa.DataLen]byte) uint16 {
	type request struct {
		method    uint8
		attribute mad.AttributeID
	}
	switch (request{h.MAD.Method, h.MAD.Attribute}) {
	case request{mad.MethodGet, mad.AttrClassPortInfo}:
		c := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: sa.ClassVersion, CapabilityMask: sa.CapMulticast, RespTime: 18}
		c.Put((*[mad.ClassPortInfoLen]byte)(record[:]))
		return mad.StatusOK
	case request{mad.MethodGet, sa.AttrPathRecord}:
		return m.pathRecord(h.ComponentMask, query, record)
	case request{mad.MethodSet, sa.AttrMCMemberRecord}:
		return m.join(in, h.ComponentMask, query, record)
	case request{mad.MethodDelete, sa.AttrMCMemberRecord}:
		return m.leave(in, h.ComponentMask, query, record)
	case request{mad.MethodGet, sa.AttrMCMemberRecord}:
		return one(h, query, record, m.memberRecords)
	case request{mad.MethodGet, sa.AttrNodeRecord}:
		return one(h, query, record, m.nodeRecords)
	case request{mad.MethodGet, sa.AttrPortInfoRecord}:
		return one(h, query, record, m.portRecords)
	case request{mad.MethodGet, sa.AttrSwitchInfoRecord}:
		return one(h, query, record, m.switchRecords)
	}
	return mad.StatusMethodAttribute
}

// one writes the record that matches a query. A Get has exactly one.
func one(h *sa.Header, query, record *[sa.DataLen]byte, all func(yield func(sa.Record))) uint16 {
	found := 0
	all(func(r sa.Record) {
		var b [sa.DataLen]byte
		r.Put(&b)
		if !sa.Match(h.MAD.Attribute, h.ComponentMask, query, &b) {
			return
		}
		found++
		*record = b
	})
	switch found {
	case 0:
		return sa.StatusNoRecords
	case 1:
		return mad.StatusOK
	}
	*record = [sa.DataLen]byte{}
	return sa.StatusTooManyRecords
}

// nodeRecords yields a record for each port with a LID.
func (m *Manager) nodeRecords(yield func(sa.Record)) {
	m.eachEnd(func(e topology.End, n *node) {
		info := n.info
		info.LocalPort, info.PortGUID = uint8(e.Port), n.ports[e.Port].guid
		yield(&sa.NodeRecord{LID: m.fabric.Port(e).LID, Info: info, Description: n.description})
	})
}

func (m *Manager) portRecords(yield func(sa.Record)) {
	m.eachEnd(func(e topology.End, n *node) {
		for i := range n.ports {
			if n.ports[i].known && (n.isSwitch() || i == e.Port) {
				info := n.ports[i].info
				info.MKey = 0 // the key is not for everybody
				yield(&sa.PortInfoRecord{LID: m.fabric.Port(e).LID, Port: uint8(i), Info: info})
			}
		}
	})
}

func (m *Manager) switchRecords(yield func(sa.Record)) {
	m.eachEnd(func(e topology.End, n *node) {
		if n.isSwitch() {
			yield(&sa.SwitchInfoRecord{LID: m.fabric.Port(e).LID, Info: n.sw})
		}
	})
}

// eachEnd calls do for each port with a LID, of the fabric that is programmed.
func (m *Manager) eachEnd(do func(e topology.End, n *node)) {
	for i, n := range m.view {
		first, last := m.fabric.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			if m.fabric.Nodes[i].Ports[p].LID != 0 {
				do(topology.End{Node: i, Port: p}, n)
			}
		}
	}
}

// findEnd returns the port that has a GID of this subnet.
func (m *Manager) findEnd(gid mad.GID) (found topology.End, ok bool) {
	if binary.BigEndian.Uint64(gid[:]) != m.config.GIDPrefix {
		return found, false
	}
	guid := binary.BigEndian.Uint64(gid[8:])
	m.eachEnd(func(e topology.End, _ *node) {
		if m.fabric.Port(e).GUID == guid {
			found, ok = e, true
		}
	})
	return found, ok
}

// findLID returns the port that has a LID.
func (m *Manager) findLID(lid uint16) (found topology.End, ok bool) {
	m.eachEnd(func(e topology.End, _ *node) {
		if p := m.fabric.Port(e); lid >= p.LID && lid>>p.LMC == p.LID>>p.LMC {
			found, ok = e, true
		}
	})
	return found, ok
}

// gid is the GID of a port.
func (m *Manager) gid(e topology.End) (g mad.GID) {
	binary.BigEndian.PutUint64(g[:], m.config.GIDPrefix)
	binary.BigEndian.PutUint64(g[8:], m.fabric.Port(e).GUID)
	return g
}
