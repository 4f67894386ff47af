package sm

import (
	"cmp"
	"maps"
	"slices"

	"softrdma/internal/fabric/routing"
	"softrdma/internal/fabric/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// firstMulticast is the lowest multicast LID (IBTA 4.1.3).
const firstMulticast = 0xC000

// A group is a multicast group. All its members get the packets, those that only send as well.
type group struct {
	record  sa.MCMemberRecord // without a member
	members map[uint64]uint8  // JoinState by port GUID
}

// The defaults of a group whose creator names no values: 2,048 bytes, 10 Gb/s.
const (
	groupMTU  = 4
	groupRate = 3
)

// join makes a port a member of a group, which it creates if there is none (IBTA 15.2.5.17).
func (m *Manager) join(in *Arrival, mask uint64, query, record *[sa.DataLen]byte) uint16 {
	var q sa.MCMemberRecord
	q.Parse(query)
	e, status := m.member(in, mask, &q)
	if status != mad.StatusOK {
		return status
	}
	g := m.groups[q.MGID]
	if g == nil || mask&sa.MemberMGID == 0 {
		if g, status = m.createGroup(mask, &q); status != mad.StatusOK {
			return status
		}
	} else if !g.allows(mask, &q) {
		return sa.StatusInvalid
	}
	guid := m.fabric.Port(e).GUID
	isNew := g.members[guid] == 0
	g.members[guid] |= q.JoinState
	m.groups[g.record.MGID] = g
	r := g.record
	r.PortGID, r.JoinState = m.gid(e), g.members[guid]
	r.Put(record)
	if isNew {
		m.programMulticast()
	}
	return mad.StatusOK
}

// leave ends a membership. The last full member takes the group with it (IBTA 15.2.5.17).
func (m *Manager) leave(in *Arrival, mask uint64, query, record *[sa.DataLen]byte) uint16 {
	var q sa.MCMemberRecord
	q.Parse(query)
	e, status := m.member(in, mask, &q)
	if status != mad.StatusOK {
		return status
	}
	guid := m.fabric.Port(e).GUID
	g := m.groups[q.MGID]
	if mask&sa.MemberMGID == 0 || g == nil || g.members[guid]&q.JoinState != q.JoinState {
		return sa.StatusInvalid
	}
	g.members[guid] &^= q.JoinState
	r := g.record
	r.PortGID, r.JoinState = q.PortGID, g.members[guid]
	r.Put(record)
	if g.members[guid] == 0 {
		delete(g.members, guid)
	}
	full := false
	for _, state := range g.members {
		full = full || state&sa.JoinFull != 0
	}
	if !full {
		delete(m.groups, q.MGID)
	}
	m.programMulticast()
	return mad.StatusOK
}

// member finds the port that joins or leaves. A port speaks for itself only.
func (m *Manager) member(in *Arrival, mask uint64, q *sa.MCMemberRecord) (topology.End, uint16) {
	if mask&sa.MemberPortGID == 0 || mask&sa.MemberJoinState == 0 {
		return topology.End{}, sa.StatusTooFew
	}
	e, ok := m.findEnd(q.PortGID)
	if !ok {
		return e, sa.StatusInvalidGID
	}
	if at, ok := m.findLID(in.SLID); !ok || at != e {
		return e, sa.StatusDenied
	}
	if q.JoinState == 0 {
		return e, sa.StatusInvalid
	}
	return e, mad.StatusOK
}

// createGroup makes a group with the lowest free MLID.
func (m *Manager) createGroup(mask uint64, q *sa.MCMemberRecord) (*group, uint16) {
	const needed = sa.MemberQKey | sa.MemberPKey | sa.MemberSL | sa.MemberFlowLabel | sa.MemberTrafficClass
	if mask&needed != needed {
		return nil, sa.StatusTooFew
	}
	if q.JoinState&sa.JoinFull == 0 || mask&sa.MemberMGID != 0 && q.MGID != (mad.GID{}) && q.MGID[0] != 0xff {
		return nil, sa.StatusInvalid
	}
	r := *q
	mlid, ok := m.freeMLID()
	if !ok {
		return nil, sa.StatusNoResources
	}
	r.MLID, r.JoinState, r.ProxyJoin, r.PortGID = mlid, 0, false, mad.GID{}
	if mask&sa.MemberMGID == 0 || r.MGID == (mad.GID{}) {
		// IBTA 15.2.5.17: transient, of link-local scope, with a number that no other group has.
		r.MGID = mad.GID{0: 0xff, 1: 0x12, 2: 0xa0, 3: 0x1c, 14: byte(mlid >> 8), 15: byte(mlid)}
	}
	r.MTU, r.Rate = exactly(mask&sa.MemberMTU != 0, q.MTU, groupMTU), exactly(mask&sa.MemberRate != 0, q.Rate, groupRate)
	r.LifeTime = exactly(mask&sa.MemberLifeTime != 0, q.LifeTime, pathLifeTime)
	if r.MTU.Value < 1 || r.MTU.Value > 5 {
		return nil, sa.StatusInvalid
	}
	return &group{record: r, members: make(map[uint64]uint8)}, mad.StatusOK
}

// exactly is a value of a new group: the one that the query names, or the usual one.
func exactly(has bool, l sa.Limit, otherwise uint8) sa.Limit {
	if !has || l.Selector != sa.Exactly {
		l.Value = otherwise
	}
	return sa.Limit{Selector: sa.Exactly, Value: l.Value}
}

// freeMLID is the lowest multicast LID that no group has and every switch has room for.
func (m *Manager) freeMLID() (uint16, bool) {
	last := 0x3ffe // 0xFFFF is the permissive LID
	for _, n := range m.view {
		if n.isSwitch() {
			last = min(last, int(n.sw.MulticastCap)-1)
		}
	}
	taken := make(map[uint16]bool)
	for _, g := range m.groups {
		taken[g.record.MLID] = true
	}
	for i := range last + 1 {
		if !taken[uint16(firstMulticast+i)] {
			return uint16(firstMulticast + i), true
		}
	}
	return 0, false
}

// allows reports whether the components of a query agree with the group.
func (g *group) allows(mask uint64, q *sa.MCMemberRecord) bool {
	r := &g.record
	const mtu, rate = sa.MemberMTU | sa.MemberMTUSelector, sa.MemberRate | sa.MemberRateSelector
	return (mask&sa.MemberQKey == 0 || q.QKey == r.QKey) && (mask&sa.MemberPKey == 0 || q.PKey|smp.FullMember == r.PKey|smp.FullMember) &&
		(mask&sa.MemberMLID == 0 || q.MLID == r.MLID) && (mask&sa.MemberSL == 0 || q.SL == r.SL) &&
		(mask&sa.MemberFlowLabel == 0 || q.FlowLabel == r.FlowLabel) && (mask&sa.MemberTrafficClass == 0 || q.TrafficClass == r.TrafficClass) &&
		(mask&mtu != mtu || q.MTU.Allows(r.MTU.Value)) && (mask&rate != rate || allowsRate(q.Rate, r.Rate.Value))
}

// sortedGroups are the groups by their MLIDs.
func (m *Manager) sortedGroups() []*group {
	return slices.SortedFunc(maps.Values(m.groups), func(a, b *group) int { return cmp.Compare(a.record.MLID, b.record.MLID) })
}

// memberRecords yields a record for each group: of a Get nobody learns the members.
func (m *Manager) memberRecords(yield func(sa.Record)) {
	for _, g := range m.sortedGroups() {
		yield(&g.record)
	}
}

// A multicastBlock names a block of a multicast table.
type multicastBlock struct{ block, position int }

// programMulticast sets the blocks of the multicast tables that differ from what the switches hold.
func (m *Manager) programMulticast() {
	want := make([]map[multicastBlock]smp.MulticastForwarding, len(m.view))
	for _, g := range m.sortedGroups() {
		sets := routing.Multicast(m.fabric, m.groupEnds(g))
		index := int(g.record.MLID - firstMulticast)
		for i, n := range m.view {
			for position := range (len(n.ports) + 15) / 16 {
				mask := sets[i].Mask(position)
				if mask == 0 {
					continue
				}
				if want[i] == nil {
					want[i] = make(map[multicastBlock]smp.MulticastForwarding)
				}
				key := multicastBlock{index / 32, position}
				t := want[i][key]
				t[index%32] = mask
				want[i][key] = t
			}
		}
	}
	for i, n := range m.view {
		if n.isSwitch() {
			m.programMulticastSwitch(n, want[i])
		}
	}
}

// programMulticastSwitch sets the blocks of one switch.
func (m *Manager) programMulticastSwitch(n *node, want map[multicastBlock]smp.MulticastForwarding) {
	held := m.multicast[n.info.NodeGUID]
	if held == nil {
		held = make(map[multicastBlock]smp.MulticastForwarding)
		m.multicast[n.info.NodeGUID] = held
	}
	keys := maps.Clone(held)
	maps.Copy(keys, want)
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b multicastBlock) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.position, b.position))
	}) {
		t := want[key]
		if old, ok := held[key]; ok && old == t {
			continue
		}
		held[key] = t
		m.set(n.path, smp.AttrMulticastForwarding, smp.MulticastModifier(key.position, key.block), &t, func(p *smp.Packet) {
			if p == nil {
				delete(held, key)
				m.status.Failures++ // look at everything again, in time
			}
		})
	}
}

// groupEnds are the ports of the members that the fabric has at present.
func (m *Manager) groupEnds(g *group) (ends []topology.End) {
	m.eachEnd(func(e topology.End, _ *node) {
		if g.members[m.fabric.Port(e).GUID] != 0 {
			ends = append(ends, e)
		}
	})
	return ends
}
