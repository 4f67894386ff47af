package sm

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// firstMulticast is the lowest multicast LID (IBTA 4.1.3).
const firstMulticast = 0xC000

// groups are the multicast groups of the subnet and their members.
type groups struct {
	subnet  *subnet
	writer  *writer
	replies *replies
	notices *notices
	byMGID  map[mad.GID]*group
	made    uint16 // MGIDs that the manager has made
}

// A group is a multicast group.
type group struct {
	record  sa.MCMemberRecord // without a member
	members map[uint64]member // by port GUID

	permanent bool // stays without members
}

// A member is a port's membership.
type member struct {
	state uint8 // JoinState
	proxy bool  // another port joined for it, and may change it
}

// The defaults of a group whose creator names no values: 2,048 bytes, 10 Gb/s.
const (
	groupMTU  = 4
	groupRate = 3
)

// join makes a port a member of a group, which it creates if there is none (IBTA 15.2.5.17).
func (gs *groups) join(q *query) {
	var r sa.MCMemberRecord
	r.Parse(&q.data)
	mask := q.header.ComponentMask
	e, status := gs.memberPort(mask, &r)
	if status != mad.StatusOK {
		gs.replies.refuse(q, status)
		return
	}
	guid := gs.subnet.fabric.Port(e).GUID
	g, isNewGroup := gs.byMGID[r.MGID], false
	switch {
	case g == nil:
		if g, status = gs.createGroup(mask, &r, e); status != mad.StatusOK {
			gs.replies.refuse(q, status)
			return
		}
		isNewGroup = true
	case !g.allows(mask, &r):
		gs.replies.refuse(q, sa.StatusInvalid)
		return
	}
	old := g.members[guid]
	// IBTA 15.2.5.17 (o15-0.2.1): without ProxyJoin a port speaks for itself only.
	if !gs.canSend(e, g) || !gs.subnet.inPartition(e, g.record.PKey) || !gs.subnet.inPartition(q.from, g.record.PKey) || old.state != 0 && !old.proxy && q.from != e {
		gs.replies.refuse(q, sa.StatusInvalid)
		return
	}
	g.members[guid] = member{old.state | r.JoinState, q.from != e}
	gs.byMGID[g.record.MGID] = g
	answer := g.record
	answer.PortGID, answer.JoinState, answer.ProxyJoin = gs.subnet.gid(e), g.members[guid].state, g.members[guid].proxy
	gs.replies.answer1(q, &answer)
	if isNewGroup {
		gs.notices.announce(noticeGroupCreated, g.record.MGID)
	}
	if g.members[guid].state != old.state {
		gs.writer.programMulticast(gs.sortedGroups())
	}
}

// leave ends a membership. The last full member takes the group with it (IBTA 15.2.5.17).
func (gs *groups) leave(q *query) {
	var r sa.MCMemberRecord
	r.Parse(&q.data)
	e, status := gs.memberPort(q.header.ComponentMask, &r)
	if status != mad.StatusOK {
		gs.replies.refuse(q, status)
		return
	}
	guid := gs.subnet.fabric.Port(e).GUID
	g := gs.byMGID[r.MGID]
	if g == nil || g.members[guid].state&r.JoinState != r.JoinState {
		gs.replies.refuse(q, sa.StatusInvalid)
		return
	}
	old := g.members[guid]
	if !old.proxy && q.from != e || !gs.subnet.inPartition(q.from, g.record.PKey) {
		gs.replies.refuse(q, sa.StatusInvalid)
		return
	}
	left := member{old.state &^ r.JoinState, old.proxy}
	g.members[guid] = left
	answer := g.record
	answer.PortGID, answer.JoinState, answer.ProxyJoin = r.PortGID, left.state, left.proxy
	gs.replies.answer1(q, &answer)
	if left.state == 0 {
		delete(g.members, guid)
	}
	gs.endUnlessUsed(g)
	gs.writer.programMulticast(gs.sortedGroups())
}

// endUnlessUsed ends a group without full members.
func (gs *groups) endUnlessUsed(g *group) {
	full := g.permanent
	for _, o := range g.members {
		full = full || o.state&(sa.JoinFull|sa.JoinSendOnlyFull) != 0
	}
	if !full {
		delete(gs.byMGID, g.record.MGID)
		gs.notices.announce(noticeGroupDeleted, g.record.MGID)
	}
}

// endMemberships ends those of a port that has gone. The sweep that missed the port has left it
// out of the tables.
func (gs *groups) endMemberships(guid uint64) {
	for _, g := range gs.sortedGroups() {
		if _, ok := g.members[guid]; ok {
			delete(g.members, guid)
			gs.endUnlessUsed(g)
		}
	}
}

// memberPort finds the port that joins or leaves.
func (gs *groups) memberPort(mask uint64, r *sa.MCMemberRecord) (topology.End, uint16) {
	const needed = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState
	if mask&needed != needed {
		return topology.End{}, sa.StatusTooFew
	}
	if binary.BigEndian.Uint64(r.PortGID[:]) != gs.subnet.config.GIDPrefix {
		return topology.End{}, sa.StatusInvalidGID
	}
	e, ok := gs.subnet.findEnd(r.PortGID)
	if !ok || r.JoinState == 0 {
		return e, sa.StatusInvalid
	}
	return e, mad.StatusOK
}

// createGroup makes a group with the lowest free MLID, for a port.
func (gs *groups) createGroup(mask uint64, q *sa.MCMemberRecord, e topology.End) (*group, uint16) {
	const needed = sa.MemberQKey | sa.MemberPKey | sa.MemberSL | sa.MemberFlowLabel | sa.MemberTrafficClass
	if q.JoinState&(sa.JoinFull|sa.JoinSendOnlyFull) == 0 {
		return nil, sa.StatusInvalid
	}
	if mask&needed != needed {
		return nil, sa.StatusTooFew
	}
	if q.MGID != (mad.GID{}) && !validMGID(q.MGID) {
		return nil, sa.StatusInvalid
	}
	r := *q
	r.JoinState, r.ProxyJoin, r.PortGID = 0, false, mad.GID{}
	own := &gs.subnet.view[e.Node].ports[e.Port]
	mtu, rate := uint8(own.config.NeighborMTU), rateIndex(gs.subnet.fabric.Port(e).Width, gs.subnet.fabric.Port(e).Speed)
	if !gs.subnet.fabric.Port(e).Connected() { // port 0 of a switch
		mtu, rate = uint8(own.info.MTUCap), len(rates)-1
	}
	const mtuLimit, rateLimit = sa.MemberMTU | sa.MemberMTUSelector, sa.MemberRate | sa.MemberRateSelector
	var ok bool
	if r.MTU, ok = choose(mask&mtuLimit == mtuLimit, q.MTU, min(mtu, groupMTU), mtu, 1, 5); !ok {
		return nil, sa.StatusInvalid
	}
	// Rates are chosen by their place in the order, because their codes have none.
	place := q.Rate
	if place.Value = ratePlace(q.Rate.Value); mask&rateLimit == rateLimit && place.Value == 0 && place.Selector != sa.Best {
		return nil, sa.StatusInvalid
	}
	if r.Rate, ok = choose(mask&rateLimit == rateLimit, place, min(ratePlace(groupRate), uint8(rate+1)), uint8(rate+1), 1, uint8(len(rates))); !ok {
		return nil, sa.StatusInvalid
	}
	r.Rate.Value = rates[r.Rate.Value-1].code
	r.LifeTime, _ = choose(mask&sa.MemberLifeTime != 0, q.LifeTime, pathLifeTime, pathLifeTime, 0, 63)
	if r.MLID, ok = gs.freeMLID(); !ok {
		return nil, sa.StatusNoResources
	}
	if r.MGID == (mad.GID{}) {
		r.MGID, r.Scope = gs.newMGID(mask, q, r.MLID)
	}
	return &group{record: r, members: make(map[uint64]member)}, mad.StatusOK
}

// The signature of the MGIDs that an administrator makes (IBTA 15.2.5.17), and link-local scope.
const (
	signatureMGID = 0xa01b
	linkLocal     = 2
)

// newMGID makes a transient MGID that no other group has.
func (gs *groups) newMGID(mask uint64, q *sa.MCMemberRecord, mlid uint16) (g mad.GID, scope uint8) {
	scope = linkLocal
	if mask&sa.MemberScope != 0 && q.Scope != 0 {
		scope = q.Scope
	}
	g[0], g[1] = 0xff, 0x10|scope
	binary.BigEndian.PutUint16(g[2:], signatureMGID)
	binary.BigEndian.PutUint64(g[4:], gs.subnet.config.GIDPrefix)
	gs.made++
	binary.BigEndian.PutUint16(g[12:], gs.made)
	binary.BigEndian.PutUint16(g[14:], mlid)
	return g, scope
}

// validMGID reports whether a client may name a GID for a new group (IBTA 15.2.5.17,
// o15-0.1.5). The signature of the administrator is its own within the link.
func validMGID(g mad.GID) bool {
	return g[0] == 0xff && g[1]&0xe0 == 0 && (binary.BigEndian.Uint16(g[2:]) != signatureMGID || g[1]&0xf != linkLocal)
}

// choose is a value of a new group: what the query names, or the usual one, within what the
// port has and the values that exist. It reports whether there is such a value.
func choose(has bool, l sa.Limit, usual, own, least, most uint8) (sa.Limit, bool) {
	v := usual
	switch {
	case !has:
	case l.Selector == sa.Greater:
		v = own
		if l.Value >= own {
			return l, false
		}
	case l.Selector == sa.Less:
		v = min(l.Value-1, own)
		if l.Value == 0 {
			return l, false
		}
	case l.Selector == sa.Exactly:
		v = l.Value
	default:
		v = own
	}
	return sa.Limit{Selector: sa.Exactly, Value: v}, v >= least && v <= most
}

// canSend reports whether the link of a port has the MTU and the rate of a group.
func (gs *groups) canSend(e topology.End, g *group) bool {
	p := gs.subnet.fabric.Port(e)
	if !p.Connected() {
		return true
	}
	return uint8(gs.subnet.view[e.Node].ports[e.Port].config.NeighborMTU) >= g.record.MTU.Value &&
		rateIndex(p.Width, p.Speed)+1 >= int(ratePlace(g.record.Rate.Value))
}

// freeMLID is the lowest multicast LID that no group has and every switch has room for.
func (gs *groups) freeMLID() (uint16, bool) {
	last := 0x3ffe // 0xFFFF is the permissive LID
	for _, n := range gs.subnet.view {
		if n.isSwitch() {
			last = min(last, int(n.sw.MulticastCap)-1)
		}
	}
	taken := make(map[uint16]bool)
	for _, g := range gs.byMGID {
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
	const mtu, rate, life = sa.MemberMTU | sa.MemberMTUSelector, sa.MemberRate | sa.MemberRateSelector, sa.MemberLifeTime | sa.MemberLifeTimeSelector
	return (mask&sa.MemberQKey == 0 || q.QKey == r.QKey) && (mask&sa.MemberPKey == 0 || q.PKey|smp.FullMember == r.PKey|smp.FullMember) &&
		(mask&sa.MemberMLID == 0 || q.MLID == r.MLID) && (mask&sa.MemberSL == 0 || q.SL == r.SL) &&
		(mask&sa.MemberFlowLabel == 0 || q.FlowLabel == r.FlowLabel) && (mask&sa.MemberTrafficClass == 0 || q.TrafficClass == r.TrafficClass) &&
		(mask&mtu != mtu || q.MTU.Allows(r.MTU.Value)) && (mask&rate != rate || allowsRate(q.Rate, r.Rate.Value)) &&
		(mask&life != life || q.LifeTime.Allows(r.LifeTime.Value))
}

// sortedGroups are the groups by their MLIDs.
func (gs *groups) sortedGroups() []*group {
	return slices.SortedFunc(maps.Values(gs.byMGID), func(a, b *group) int { return cmp.Compare(a.record.MLID, b.record.MLID) })
}

// memberRecords answers a query of groups and members. Untrusted clients learn of groups, but
// not of their members (IBTA 15.4.1.1).
func (gs *groups) memberRecords(q *query) {
	var r sa.MCMemberRecord
	r.Parse(&q.data)
	mask := q.header.ComponentMask
	t := newTable(q)
	add := func(r sa.MCMemberRecord) {
		if !q.trusted {
			r.PortGID, r.JoinState, r.ProxyJoin = mad.GID{}, 0, false
		}
		var b [sa.DataLen]byte
		r.Put(&b)
		t.add(&b)
	}
	for _, g := range gs.sortedGroups() {
		if mask&sa.MemberMGID != 0 && r.MGID != g.record.MGID || !g.allows(mask, &r) || mask&sa.MemberScope != 0 && r.Scope != g.record.Scope ||
			!gs.subnet.inPartition(q.from, g.record.PKey) {
			continue
		}
		if mask&sa.MemberPortGID == 0 && !q.trusted {
			add(g.record)
			continue
		}
		for _, guid := range sortedKeys(g.members) {
			o, x := g.members[guid], g.record
			binary.BigEndian.PutUint64(x.PortGID[:], gs.subnet.config.GIDPrefix)
			binary.BigEndian.PutUint64(x.PortGID[8:], guid)
			x.JoinState, x.ProxyJoin = o.state, o.proxy
			if mask&sa.MemberPortGID != 0 && r.PortGID != x.PortGID || mask&sa.MemberJoinState != 0 && r.JoinState != x.JoinState ||
				mask&sa.MemberProxyJoin != 0 && r.ProxyJoin != x.ProxyJoin {
				continue
			}
			add(x)
		}
	}
	gs.replies.answerTable(q, t)
}

// sortedKeys returns the keys of a map in their order, so that answers do not depend on chance.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
