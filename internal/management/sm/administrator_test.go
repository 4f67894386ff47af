package sm

import (
	"encoding/binary"
	"testing"
	"time"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// administered returns a fat tree that is up, and its manager.
func administered(t testing.TB) (*rig, *Manager) {
	r := newRig(t, "fat-tree:k=4")
	m := r.manage(len(r.nodes)-1, Config{})
	r.settle(m)
	return r, m
}

// end returns the port of an adapter by its name.
func (r *rig) end(name string) (topology.End, uint16, mad.GID) {
	r.t.Helper()
	n, err := r.f.Find(name)
	if err != nil {
		r.t.Fatal(err)
	}
	first, _ := r.f.Nodes[n].EndPorts()
	var gid mad.GID
	binary.BigEndian.PutUint64(gid[:], 0xfe80000000000000)
	binary.BigEndian.PutUint64(gid[8:], r.f.Nodes[n].Ports[first].GUID)
	return topology.End{Node: n, Port: first}, r.nodes[n].configs[first].LID, gid
}

// ask sends a query, parses the record of its response into it, and returns the status.
func ask(t testing.TB, m *Manager, now time.Duration, slid uint16, method uint8, a mad.AttributeID, mask uint64, record sa.Record) uint16 {
	t.Helper()
	h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: method, Attribute: a, TID: 77}, ComponentMask: mask}
	var in [mad.Len]byte
	h.Put(&in)
	record.Put(sa.Data(&in))
	if !m.Administer(now, &Arrival{SLID: slid, SL: 3, SourceQPN: 9, MAD: &in}) {
		t.Fatal("the request was not taken")
	}
	var out Departure
	if !m.Next(now, &out) {
		t.Fatal("no answer")
	}
	h.Parse(&out.MAD)
	want := method | mad.ResponseBit
	if method == mad.MethodSet {
		want = mad.MethodGetResponse
	}
	if h.MAD.Method != want || h.MAD.TID != 77 || h.MAD.Attribute != a || out.DLID != slid || out.SL != 3 || out.QPN != 1 || out.DestinationQPN != 9 {
		t.Fatalf("%+v to LID %d", h.MAD, out.DLID)
	}
	record.Parse(sa.Data(&out.MAD))
	return h.MAD.Status
}

func TestPathRecordHasWhatTheTablesGive(t *testing.T) {
	r, m := administered(t)
	_, slid, sgid := r.end("node-0")
	_, dlid, dgid := r.end("node-9")
	_, coreLID, coreGID := r.end("core-0-1")
	for _, c := range []struct {
		name   string
		mask   uint64
		q      sa.PathRecord
		status uint16
		dlid   uint16
	}{
		{"by GIDs", sa.PathSGID | sa.PathDGID, sa.PathRecord{SGID: sgid, DGID: dgid}, mad.StatusOK, dlid},
		{"by LIDs", sa.PathSLID | sa.PathDLID, sa.PathRecord{SLID: slid, DLID: dlid}, mad.StatusOK, dlid},
		{"to a switch", sa.PathSLID | sa.PathDGID, sa.PathRecord{SLID: slid, DGID: coreGID}, mad.StatusOK, coreLID},
		{"to itself", sa.PathSGID | sa.PathDGID, sa.PathRecord{SGID: sgid, DGID: sgid}, mad.StatusOK, slid},
		{"GID and LID of different ports", sa.PathSGID | sa.PathSLID | sa.PathDGID, sa.PathRecord{SGID: sgid, SLID: dlid, DGID: dgid}, sa.StatusNoRecords, 0},
		{"without destination", sa.PathSGID, sa.PathRecord{SGID: sgid}, sa.StatusTooFew, 0},
		{"unknown GID", sa.PathSGID | sa.PathDGID, sa.PathRecord{SGID: sgid}, sa.StatusNoRecords, 0},
		{"unknown LID", sa.PathSGID | sa.PathDLID, sa.PathRecord{SGID: sgid, DLID: 999}, sa.StatusNoRecords, 0},
		{"other partition", sa.PathSGID | sa.PathDGID | sa.PathPKey, sa.PathRecord{SGID: sgid, DGID: dgid, PKey: 0x8001}, sa.StatusNoRecords, 0},
		{"100 Gb/s exactly", sa.PathSGID | sa.PathDGID | sa.PathRate | sa.PathRateSelector,
			sa.PathRecord{SGID: sgid, DGID: dgid, Rate: sa.Limit{Selector: sa.Exactly, Value: 16}}, mad.StatusOK, dlid},
		{"less than 56 Gb/s", sa.PathSGID | sa.PathDGID | sa.PathRate | sa.PathRateSelector,
			sa.PathRecord{SGID: sgid, DGID: dgid, Rate: sa.Limit{Selector: sa.Less, Value: 12}}, sa.StatusNoRecords, 0},
	} {
		q := c.q
		if got := ask(t, m, r.now, slid, mad.MethodGet, sa.AttrPathRecord, c.mask, &q); got != c.status {
			t.Errorf("%s: status %#x, expected %#x", c.name, got, c.status)
			continue
		}
		if c.status != mad.StatusOK {
			continue
		}
		if q.SLID != slid || q.DLID != c.dlid || q.SGID != sgid || q.MTU.Value != 5 || q.Rate.Value != 16 || q.PKey != 0xffff || !q.Reversible {
			t.Errorf("%s: %+v", c.name, q)
		}
	}
}

func TestRecordsOfNodesPortsAndSwitches(t *testing.T) {
	r, m := administered(t)
	_, lid, _ := r.end("node-3")
	n := sa.NodeRecord{LID: lid}
	if s := ask(t, m, r.now, lid, mad.MethodGet, sa.AttrNodeRecord, 1, &n); s != mad.StatusOK || n.Description.String() != "node-3" || n.Info.LocalPort != 1 {
		t.Fatalf("%#x %+v", s, n)
	}
	p := sa.PortInfoRecord{LID: lid}
	if s := ask(t, m, r.now, lid, mad.MethodGet, sa.AttrPortInfoRecord, 1, &p); s != mad.StatusOK || p.Info.State != smp.PortActive || p.Info.LID != lid || p.Port != 1 {
		t.Fatalf("%#x %+v", s, p)
	}
	_, core, _ := r.end("core-1-1")
	w := sa.SwitchInfoRecord{LID: core}
	if s := ask(t, m, r.now, lid, mad.MethodGet, sa.AttrSwitchInfoRecord, 1, &w); s != mad.StatusOK || w.Info.LinearTop == 0 {
		t.Fatalf("%#x %+v", s, w)
	}
	if s := ask(t, m, r.now, lid, mad.MethodGet, sa.AttrNodeRecord, 0, &n); s != sa.StatusTooManyRecords {
		t.Fatalf("all nodes: %#x", s)
	}
}

// groupMask are the components that create a group.
const groupMask = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState | sa.MemberQKey | sa.MemberPKey | sa.MemberSL | sa.MemberFlowLabel | sa.MemberTrafficClass

// broadcast is IPoIB's group of the default partition, which the manager makes, and multicast a
// group that clients make.
var (
	broadcast = mad.GID{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x1b, 4: 0xff, 5: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}
	multicast = mad.GID{0: 0xff, 1: 0x12, 15: 9}
)

// checkMulticast compares the switches' tables with the tree of the members.
func (r *rig) checkMulticast(mlid uint16, members ...topology.End) {
	r.t.Helper()
	sets := routing.Multicast(r.f, members)
	index := int(mlid - 0xC000)
	for i := range r.f.Nodes {
		if r.f.Nodes[i].Kind != topology.Switch {
			continue
		}
		t := r.nodes[i].multicast[[2]int{index / 32, 0}]
		if got := t[index%32]; got != sets[i].Mask(0) {
			r.t.Fatalf("%s sends MLID %#x to ports %#b, expected %#b", r.f.Nodes[i].Description, mlid, got, sets[i].Mask(0))
		}
	}
}

func TestMembersJoinAndLeaveAGroup(t *testing.T) {
	r, m := administered(t)
	var ends []topology.End
	mlid := uint16(0)
	for _, name := range []string{"node-0", "node-6", "node-11"} {
		e, lid, gid := r.end(name)
		q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, QKey: 0xb1b, PKey: 0xffff, JoinState: sa.JoinFull}
		if s := ask(t, m, r.now, lid, mad.MethodSet, sa.AttrMCMemberRecord, groupMask, &q); s != mad.StatusOK || q.MLID != 0xC001 || q.MTU.Value != groupMTU {
			t.Fatalf("%s: %#x %+v", name, s, q)
		}
		mlid = q.MLID
		ends = append(ends, e)
	}
	r.settle(m)
	r.checkMulticast(mlid, ends...)

	cut := r.between("leaf-0-0", "spine-0-0")
	r.link(cut, false)
	r.pass(time.Minute)
	whole := r.f
	r.f = whole.Clone()
	r.f.Disconnect(cut)
	r.checkMulticast(mlid, ends...)
	r.f = whole
	r.link(cut, true)
	r.pass(time.Minute)

	_, lid, gid := r.end("node-6")
	q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, JoinState: sa.JoinFull}
	const mask = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState
	if s := ask(t, m, r.now, lid, mad.MethodDelete, sa.AttrMCMemberRecord, mask, &q); s != mad.StatusOK {
		t.Fatalf("%#x", s)
	}
	r.settle(m)
	r.checkMulticast(mlid, ends[0], ends[2])
	q.JoinState = sa.JoinFull
	if s := ask(t, m, r.now, lid, mad.MethodDelete, sa.AttrMCMemberRecord, mask, &q); s != sa.StatusInvalid {
		t.Fatalf("left twice: %#x", s)
	}
	for _, name := range []string{"node-0", "node-11"} {
		_, lid, gid := r.end(name)
		q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, JoinState: sa.JoinFull}
		if s := ask(t, m, r.now, lid, mad.MethodDelete, sa.AttrMCMemberRecord, mask, &q); s != mad.StatusOK {
			t.Fatalf("%#x", s)
		}
	}
	if s := ask(t, m, r.now, lid, mad.MethodGet, sa.AttrMCMemberRecord, sa.MemberMGID, &q); s != sa.StatusNoRecords {
		t.Fatalf("the group without members: %#x", s)
	}
}

func TestJoinRefusals(t *testing.T) {
	r, m := administered(t)
	_, lid, gid := r.end("node-0")
	_, _, other := r.end("node-1")
	good := sa.MCMemberRecord{MGID: multicast, PortGID: gid, QKey: 1, PKey: 0xffff, JoinState: sa.JoinFull}
	for _, c := range []struct {
		name   string
		mask   uint64
		change func(*sa.MCMemberRecord)
		want   uint16
	}{
		{"for a port of another subnet", groupMask, func(q *sa.MCMemberRecord) { q.PortGID[0] = 1 }, sa.StatusInvalidGID},
		{"for an unknown port", groupMask, func(q *sa.MCMemberRecord) { q.PortGID[15]++ }, sa.StatusInvalid},
		{"too little to create a group", groupMask &^ sa.MemberQKey, func(*sa.MCMemberRecord) {}, sa.StatusTooFew},
		{"no state", groupMask, func(q *sa.MCMemberRecord) { q.JoinState = 0 }, sa.StatusInvalid},
		{"a new group without a full member", groupMask, func(q *sa.MCMemberRecord) { q.JoinState = sa.JoinNon }, sa.StatusInvalid},
		{"a unicast MGID", groupMask, func(q *sa.MCMemberRecord) { q.MGID[0] = 0xfe }, sa.StatusInvalid},
		{"the group", groupMask, func(*sa.MCMemberRecord) {}, mad.StatusOK},
		{"the group with another Q_Key", groupMask, func(q *sa.MCMemberRecord) { q.QKey = 2 }, sa.StatusInvalid},
		{"the group for another port", groupMask, func(q *sa.MCMemberRecord) { q.PortGID = other }, mad.StatusOK},
		{"without a component for the MGID", groupMask &^ sa.MemberMGID, func(*sa.MCMemberRecord) {}, sa.StatusTooFew},
		{"a group of its own", groupMask, func(q *sa.MCMemberRecord) { q.MGID = mad.GID{} }, mad.StatusOK},
		{"a MGID that only the administrator makes", groupMask, func(q *sa.MCMemberRecord) { q.MGID = mad.GID{0: 0xff, 1: 0x12, 2: 0xa0, 3: 0x1b} }, sa.StatusInvalid},
		{"a new group of 8,192 bytes", groupMask | sa.MemberMTU | sa.MemberMTUSelector, func(q *sa.MCMemberRecord) {
			q.MGID[15], q.MTU = 1, sa.Limit{Selector: sa.Exactly, Value: 6}
		}, sa.StatusInvalid},
		{"a group faster than the link", groupMask | sa.MemberRate | sa.MemberRateSelector, func(q *sa.MCMemberRecord) {
			q.MGID[15], q.Rate = 1, sa.Limit{Selector: sa.Greater, Value: 16}
		}, sa.StatusInvalid},
	} {
		q := good
		c.change(&q)
		if got := ask(t, m, r.now, lid, mad.MethodSet, sa.AttrMCMemberRecord, c.mask, &q); got != c.want {
			t.Errorf("%s: %#x, expected %#x", c.name, got, c.want)
		}
	}
	if len(m.groups.byMGID) != 3 {
		t.Fatalf("%d groups", len(m.groups.byMGID))
	}
}

func TestOnlyTheMasterAdministers(t *testing.T) {
	m := New(&Config{GUID: 1})
	var in [mad.Len]byte
	h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: mad.MethodGet, Attribute: sa.AttrPathRecord}}
	h.Put(&in)
	if m.Administer(0, &Arrival{SLID: 1, MAD: &in}) {
		t.Fatal("a manager that discovers answered")
	}
}

// FuzzAdminister sends any datagram to an administrator.
func FuzzAdminister(f *testing.F) {
	r, m := administered(f)
	_, lid, gid := r.end("node-0")
	for _, a := range []mad.AttributeID{sa.AttrPathRecord, sa.AttrMCMemberRecord, sa.AttrNodeRecord, sa.AttrServiceRecord, mad.AttrInformInfo, sa.AttrMultiPathRecord, sa.AttrSLtoVLRecord} {
		for _, method := range []uint8{mad.MethodGet, mad.MethodSet, mad.MethodDelete, mad.MethodGetTable, mad.MethodGetMulti} {
			var in [mad.Len]byte
			h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: method, Attribute: a}, ComponentMask: groupMask}
			h.Put(&in)
			q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, JoinState: sa.JoinFull}
			q.Put(sa.Data(&in))
			f.Add(in[:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in [mad.Len]byte
		copy(in[:], b)
		m.Administer(r.now, &Arrival{SLID: lid, MAD: &in})
		for i := 0; i < 100 && m.Next(r.now, new(Departure)); i++ {
		}
		m.forget()
		m.replies.waiting = nil
	})
}
