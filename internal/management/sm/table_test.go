package sm

import (
	"testing"
	"time"

	machine "softrdma/internal/management/rmpp"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A client asks the administrator for tables. Its packets reach the manager at once.
type client struct {
	r       *rig
	m       *Manager
	lid     uint16
	key     uint64
	tid     uint64
	reports []mad.Notice
	lose    func() bool // packets in either direction
}

func (c *client) lost() bool { return c.lose != nil && c.lose() }

// request sends a request, and returns the datagram of the answer and the bytes behind its
// header.
func (c *client) request(method uint8, a mad.AttributeID, modifier uint32, mask uint64, record sa.Record) (h sa.Header, data []byte) {
	c.r.t.Helper()
	c.tid++
	h = sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: method,
		Attribute: a, TID: c.tid, Modifier: modifier}, SMKey: c.key, ComponentMask: mask}
	var in [mad.Len]byte
	h.Put(&in)
	record.Put(sa.Data(&in))
	if !c.m.Administer(c.r.now, &Arrival{SLID: c.lid, SourceQPN: 1, MAD: &in}) {
		c.r.t.Fatalf("the administrator does not take method %#x", method)
	}
	var receiver *machine.Receiver
	config := machine.Config{HeaderLen: sa.HeaderLen, Timeout: time.Minute, MaxLen: maxTable}
	answered := false
	c.r.run(func() bool {
		for _, d := range c.r.general {
			var g sa.Header
			g.Parse(&d)
			switch {
			case g.MAD.Method == mad.MethodReport:
				c.report(&d)
			case g.MAD.TID != c.tid || c.lost():
			case g.RMPP.Flags&rmpp.Active == 0:
				h, data, answered = g, append([]byte(nil), sa.Data(&d)[:]...), true
			default:
				if receiver == nil {
					receiver = machine.NewReceiver(&config, c.r.now, &d)
				}
				receiver.Receive(c.r.now, &d)
				var ack [mad.Len]byte
				for receiver.Next(&ack) {
					if !c.lost() {
						c.m.Administer(c.r.now, &Arrival{SLID: c.lid, SourceQPN: 1, MAD: &ack})
					}
				}
				if first, all, complete := receiver.Data(); complete {
					h.Parse(first)
					data, answered = all, true
				}
			}
		}
		c.r.general = nil
		return answered
	})
	return h, data
}

// report keeps a notice, and answers its report.
func (c *client) report(d *[mad.Len]byte) {
	var n mad.Notice
	n.Parse((*[mad.NoticeLen]byte)(sa.Data(d)[:]))
	c.reports = append(c.reports, n)
	var h sa.Header
	h.Parse(d)
	h.MAD.Method = mad.MethodReportResponse
	h.Put(d)
	c.m.Administer(c.r.now, &Arrival{SLID: c.lid, SourceQPN: 1, MAD: d})
}

// get sends a request whose answer is a record, which it parses, and returns the status.
func (c *client) get(method uint8, a mad.AttributeID, mask uint64, record sa.Record) uint16 {
	c.r.t.Helper()
	h, data := c.request(method, a, 0, mask, record)
	record.Parse((*[sa.DataLen]byte)(data))
	return h.MAD.Status
}

// tableOf returns the records of a table.
func tableOf[T any, P interface {
	*T
	sa.Record
}](c *client, a mad.AttributeID, modifier uint32, mask uint64, query T) (list []T) {
	c.r.t.Helper()
	h, data := c.request(mad.MethodGetTable, a, modifier, mask, P(&query))
	if h.MAD.Status != mad.StatusOK || h.MAD.Method != mad.MethodGetTableResponse || h.SMKey != 0 {
		c.r.t.Fatalf("attribute %#x: %+v", uint16(a), h)
	}
	for n := h.RecordLen(); n > 0 && len(data) >= n; data = data[n:] {
		var b [sa.DataLen]byte
		copy(b[:], data[:n])
		var v T
		P(&v).Parse(&b)
		list = append(list, v)
	}
	return list
}

// asked returns a client at an adapter of a fat tree that is up.
func asked(t testing.TB, name string) *client {
	r, m := administered(t)
	_, lid, _ := r.end(name)
	return &client{r: r, m: m, lid: lid}
}

func TestTablesHaveARecordForAllThatMatches(t *testing.T) {
	c := asked(t, "node-2")
	f := c.r.f
	switches, links := 0, 0
	for i := range f.Nodes {
		if f.Nodes[i].Kind == 2 {
			switches++
		}
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Ports[p].Connected() {
				links++
			}
		}
	}
	nodes := tableOf(c, sa.AttrNodeRecord, 0, 0, sa.NodeRecord{})
	if len(nodes) != len(f.Nodes) {
		t.Errorf("%d nodes, expected %d", len(nodes), len(f.Nodes))
	}
	if n := tableOf(c, sa.AttrNodeRecord, 0, 1<<4, sa.NodeRecord{Info: smp.NodeInfo{Type: smp.Switch}}); len(n) != switches {
		t.Errorf("%d switches, expected %d", len(n), switches)
	}
	if n := tableOf(c, sa.AttrLinkRecord, 0, 0, sa.LinkRecord{}); len(n) != links {
		t.Errorf("%d links, expected %d", len(n), links)
	}
	if n := tableOf(c, sa.AttrSwitchInfoRecord, 0, 0, sa.SwitchInfoRecord{}); len(n) != switches {
		t.Errorf("%d SwitchInfos, expected %d", len(n), switches)
	}
	if n := tableOf(c, sa.AttrSMInfoRecord, 0, 0, sa.SMInfoRecord{}); len(n) != 1 || n[0].Info.State != smp.SMMaster || n[0].LID == 0 {
		t.Errorf("managers: %+v", n)
	}
	if n := tableOf(c, sa.AttrPathRecord, 0, 0, sa.PathRecord{}); len(n) != len(f.Nodes)*len(f.Nodes) {
		t.Errorf("%d paths between %d nodes", len(n), len(f.Nodes))
	}
	if n := tableOf(c, sa.AttrPathRecord, 0, sa.PathSLID, sa.PathRecord{SLID: c.lid}); len(n) != len(f.Nodes) {
		t.Errorf("%d paths to %d nodes", len(n), len(f.Nodes))
	}
	if n := tableOf(c, sa.AttrNodeRecord, 0, 1, sa.NodeRecord{LID: 0xbfff}); len(n) != 0 {
		t.Errorf("%d nodes with an unknown LID", len(n))
	}
	for _, x := range tableOf(c, sa.AttrLinearForwardingRecord, 0, 0, sa.LinearForwardingRecord{}) {
		at, _ := c.m.subnet.findLID(x.LID)
		n, _ := f.Find(c.m.subnet.fabric.Nodes[at.Node].Description)
		if c.r.nodes[n].linear[int(x.Block)] != x.Table {
			t.Errorf("block %d of LID %d differs from what the switch holds", x.Block, x.LID)
		}
	}
}

// The capability mask of a query selects ports that have more, if the modifier says so.
func TestPortsAreSelectedByTheirCapabilities(t *testing.T) {
	c := asked(t, "node-2")
	const capability = 1 << 7
	query := sa.PortInfoRecord{Info: smp.PortInfo{CapabilityMask: smp.CapSM}}
	if n := tableOf(c, sa.AttrPortInfoRecord, 1<<31, capability, query); len(n) != 1 || n[0].LID != c.m.subnet.ownLID() {
		t.Errorf("ports with a manager: %+v", n)
	}
	if n := tableOf(c, sa.AttrPortInfoRecord, 0, capability, query); len(n) != 0 {
		t.Errorf("ports with that capability alone: %+v", n)
	}
}

func TestTablesOfPortsAreReadFromTheNodes(t *testing.T) {
	c := asked(t, "node-2")
	e, _, _ := c.r.end("node-2")
	n := c.r.nodes[e.Node]
	n.keys[[2]int{1, 0}] = smp.PKeyTable{0xffff, 0x8001}
	n.lanes[[2]int{1, 1}] = smp.SLtoVL{3, 1, 4}
	n.weights[[2]int{1, smp.ArbitrationHigh}] = smp.VLArbitration{{VL: 2, Weight: 9}}
	if h, _ := c.request(mad.MethodGetTable, sa.AttrPKeyTableRecord, 0, 0, &sa.PKeyTableRecord{}); h.MAD.Status != sa.StatusInvalid {
		t.Errorf("partitions for an untrusted query: status %#x", h.MAD.Status)
	}
	c.key = c.m.config.AdministrationKey
	if r := tableOf(c, sa.AttrPKeyTableRecord, 0, 1, sa.PKeyTableRecord{LID: c.lid}); len(r) == 0 || r[0].Table[1] != 0x8001 || r[0].Port != 1 {
		t.Errorf("partitions: %+v", r)
	}
	if r := tableOf(c, sa.AttrSLtoVLRecord, 0, 1, sa.SLtoVLRecord{LID: c.lid}); len(r) != 1 || r[0].Table != (smp.SLtoVL{3, 1, 4}) {
		t.Errorf("lanes: %+v", r)
	}
	if r := tableOf(c, sa.AttrSLtoVLRecord, 0, 7, sa.SLtoVLRecord{LID: c.lid}); len(r) != 1 || r[0].Out != 1 {
		t.Errorf("lanes of an adapter's port 0: %+v", r)
	}
	if r := tableOf(c, sa.AttrVLArbitrationRecord, 0, 7, sa.VLArbitrationRecord{LID: c.lid, Block: smp.ArbitrationHigh}); len(r) != 1 || r[0].Port != 1 {
		t.Errorf("weights of an adapter's port 0: %+v", r)
	}
	const lidAndBlock = 1 | 1<<2
	if r := tableOf(c, sa.AttrVLArbitrationRecord, 0, lidAndBlock, sa.VLArbitrationRecord{LID: c.lid, Block: smp.ArbitrationHigh}); len(r) != 1 || r[0].Table[0].Weight != 9 {
		t.Errorf("weights: %+v", r)
	}
	guid := c.r.f.Port(e).GUID
	if r := tableOf(c, sa.AttrGUIDInfoRecord, 0, 1, sa.GUIDInfoRecord{LID: c.lid}); len(r) != 1 || r[0].Table[0] != guid {
		t.Errorf("GUIDs: %x, expected %x", r, guid)
	}
	if all := tableOf(c, sa.AttrPKeyTableRecord, 0, 0, sa.PKeyTableRecord{}); len(all) < len(c.r.f.Nodes) {
		t.Errorf("%d blocks of partitions", len(all))
	}
}

func TestTablesArriveThoughPacketsAreLost(t *testing.T) {
	c := asked(t, "node-2")
	n := 0
	c.lose = func() bool { n++; return n%9 == 4 }
	f := len(c.r.f.Nodes)
	if got := tableOf(c, sa.AttrPathRecord, 0, 0, sa.PathRecord{}); len(got) != f*f {
		t.Errorf("%d paths, expected %d", len(got), f*f)
	}
	c.r.pass(time.Minute)
	if len(c.m.replies.transfers) > 0 {
		t.Error("the transfer did not end")
	}
}

func TestClientThatVanishesLeavesNothing(t *testing.T) {
	c := asked(t, "node-2")
	var in [mad.Len]byte
	h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion,
		Method: mad.MethodGetTable, Attribute: sa.AttrPathRecord}}
	for i := range maxTransfers + 1 {
		h.MAD.TID = uint64(i)
		h.Put(&in)
		c.m.Administer(c.r.now, &Arrival{SLID: c.lid, SourceQPN: 1, MAD: &in})
	}
	if n := len(c.m.replies.transfers); n != maxTransfers {
		t.Errorf("%d transfers at a time", n)
	}
	c.r.pass(time.Minute)
	if n := len(c.m.replies.transfers); n != 0 {
		t.Errorf("%d transfers are left after a minute without an ACK", n)
	}
}

func TestQueryWithAWrongKeyIsIgnored(t *testing.T) {
	c := asked(t, "node-2")
	var in [mad.Len]byte
	h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion,
		Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}, SMKey: 9999}
	h.Put(&in)
	if !c.m.Administer(c.r.now, &Arrival{SLID: c.lid, MAD: &in}) || c.m.Next(c.r.now, new(Departure)) {
		t.Error("a query with a wrong SM_Key is for nobody else, and has no answer")
	}
}

func TestTrustedQueriesSeeMembersAndKeys(t *testing.T) {
	c := asked(t, "node-2")
	_, _, gid := c.r.end("node-2")
	q := sa.MCMemberRecord{MGID: broadcast, PortGID: gid, QKey: ipoibQKey, PKey: 0xffff, JoinState: sa.JoinFull}
	if s := c.get(mad.MethodSet, sa.AttrMCMemberRecord, groupMask, &q); s != mad.StatusOK {
		t.Fatalf("join: %#x", s)
	}
	for _, key := range []uint64{0, 1} {
		c.key = key
		list := tableOf(c, sa.AttrMCMemberRecord, 0, 0, sa.MCMemberRecord{})
		if len(list) != 1 || list[0].MGID != broadcast || (list[0].PortGID == gid) != (key != 0) || (list[0].JoinState != 0) != (key != 0) {
			t.Errorf("key %d: %+v", key, list)
		}
	}
}

func TestServicesLiveForTheirLease(t *testing.T) {
	c := asked(t, "node-2")
	_, _, gid := c.r.end("node-2")
	const mask = 1<<0 | 1<<1 | 1<<2 | 1<<4 | 1<<5 | 1<<6
	s := sa.ServiceRecord{ServiceID: 5, GID: gid, PKey: 0xffff, Lease: 10, Key: [16]byte{7}, Name: [64]byte{'a'}}
	if status := c.get(mad.MethodSet, sa.AttrServiceRecord, mask, &s); status != mad.StatusOK || s.ServiceID != 5 || s.Key != ([16]byte{}) {
		t.Fatalf("%#x %+v", status, s)
	}
	other := sa.ServiceRecord{ServiceID: 6, GID: gid}
	if status := c.get(mad.MethodSet, sa.AttrServiceRecord, 1|2, &other); status != mad.StatusOK || other.Lease != endless || other.PKey != 0xffff {
		t.Fatalf("%#x %+v", status, other)
	}
	bad := sa.ServiceRecord{ServiceID: 6}
	if status := c.get(mad.MethodSet, sa.AttrServiceRecord, 1, &bad); status != sa.StatusInvalid {
		t.Errorf("a service without a GID: %#x", status)
	}
	if n := tableOf(c, sa.AttrServiceRecord, 0, 0, sa.ServiceRecord{}); len(n) != 2 {
		t.Errorf("%d services", len(n))
	}
	named := sa.ServiceRecord{Name: [64]byte{'a'}}
	if status := c.get(mad.MethodGet, sa.AttrServiceRecord, 1<<6, &named); status != mad.StatusOK || named.ServiceID != 5 {
		t.Errorf("by name: %#x %+v", status, named)
	}
	c.r.pass(11 * time.Second)
	if n := tableOf(c, sa.AttrServiceRecord, 0, 0, sa.ServiceRecord{}); len(n) != 1 || n[0].ServiceID != 6 {
		t.Errorf("after the lease: %+v", n)
	}
	gone := sa.ServiceRecord{ServiceID: 6, GID: gid}
	for _, want := range []uint16{mad.StatusOK, sa.StatusNoRecords} {
		if status := c.get(mad.MethodDelete, sa.AttrServiceRecord, 1|2, &gone); status != want {
			t.Errorf("delete: %#x, expected %#x", status, want)
		}
	}
}

// subscribed is a subscription to all notices.
func subscribed() sa.InformInfo {
	return sa.InformInfo{LIDBegin: sa.AllLIDs, Generic: 1, Subscribe: 1, Type: sa.AllTypes, Number: sa.AllNumbers, Producer: sa.AllProducers}
}

func TestSubscribersLearnOfPortsGroupsAndTraps(t *testing.T) {
	c := asked(t, "node-2")
	info := subscribed()
	if s := c.get(mad.MethodSet, mad.AttrInformInfo, 0, &info); s != mad.StatusOK || info.Subscribe != 1 {
		t.Fatalf("%#x %+v", s, info)
	}
	if n := tableOf(c, sa.AttrInformInfoRecord, 0, 0, sa.InformInfoRecord{}); len(n) != 1 || n[0].Info.QPN != 1 {
		t.Errorf("subscriptions: %+v", n)
	}
	_, _, gid := c.r.end("node-2")
	q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, QKey: 1, PKey: 0xffff, JoinState: sa.JoinFull}
	c.get(mad.MethodSet, sa.AttrMCMemberRecord, groupMask, &q)
	q.JoinState = sa.JoinFull
	c.get(mad.MethodDelete, sa.AttrMCMemberRecord, groupMask, &q)
	e, _, other := c.r.end("node-7")
	c.r.link(e, false)
	c.r.pass(time.Minute)
	c.r.link(e, true)
	c.r.pass(time.Minute)
	tableOf(c, sa.AttrSMInfoRecord, 0, 0, sa.SMInfoRecord{}) // takes the reports
	for _, want := range []struct {
		number uint16
		gid    mad.GID
	}{{noticeGroupCreated, multicast}, {noticeGroupDeleted, multicast}, {trapLinkState, mad.GID{}}, {noticeOutOfService, other}, {noticeInService, other}} {
		found := false
		for _, n := range c.reports {
			found = found || n.Number == want.number && n.Generic && (want.gid == mad.GID{} || mad.GID(n.Details[6:22]) == want.gid)
		}
		if !found {
			t.Errorf("no report of notice %d", want.number)
		}
	}
	info = subscribed()
	info.Subscribe = 0
	for _, want := range []uint16{mad.StatusOK, sa.StatusInvalid} {
		if s := c.get(mad.MethodSet, mad.AttrInformInfo, 0, &info); s != want {
			t.Errorf("end of a subscription: %#x, expected %#x", s, want)
		}
	}
}

// A port that has gone is a member of no group any more, also when it comes back.
func TestMembershipsEndWithTheirPort(t *testing.T) {
	c := asked(t, "node-2")
	e, _, gid := c.r.end("node-2")
	q := sa.MCMemberRecord{MGID: multicast, PortGID: gid, QKey: 1, PKey: 0xffff, JoinState: sa.JoinFull}
	if s := c.get(mad.MethodSet, sa.AttrMCMemberRecord, groupMask, &q); s != mad.StatusOK {
		t.Fatalf("join: %#x", s)
	}
	c.r.link(e, false)
	c.r.pass(time.Minute)
	c.r.link(e, true)
	c.r.pass(time.Minute)
	if g := tableOf(c, sa.AttrMCMemberRecord, 0, sa.MemberMGID, sa.MCMemberRecord{MGID: multicast}); len(g) != 0 {
		t.Errorf("the group is left: %+v", g)
	}
}

func TestSecurityTrapsAreForTrustedSubscribers(t *testing.T) {
	c := asked(t, "node-2")
	info := subscribed()
	info.Number = 257
	if s := c.get(mad.MethodSet, mad.AttrInformInfo, 0, &info); s != sa.StatusInvalid {
		t.Errorf("without a key: %#x", s)
	}
	c.key = 1
	info = subscribed()
	info.Number = 257
	if s := c.get(mad.MethodSet, mad.AttrInformInfo, 0, &info); s != mad.StatusOK {
		t.Errorf("with the key: %#x", s)
	}
}

func TestMultiPathJoinsSetsOfPorts(t *testing.T) {
	c := asked(t, "node-2")
	_, _, a := c.r.end("node-2")
	_, _, b := c.r.end("node-5")
	_, _, d := c.r.end("node-9")
	q := sa.MultiPathRecord{Sources: 1, Destinations: 2, GIDs: [sa.MultiPathGIDs]mad.GID{a, b, d}}
	h, data := c.request(mad.MethodGetMulti, sa.AttrMultiPathRecord, 0, 0, &q)
	if h.MAD.Status != mad.StatusOK || h.MAD.Method != mad.MethodGetMultiResponse || len(data) != 2*sa.PathRecordLen {
		t.Fatalf("%+v with %d bytes", h.MAD, len(data))
	}
	q.Destinations = 200
	if h, _ := c.request(mad.MethodGetMulti, sa.AttrMultiPathRecord, 0, 0, &q); h.MAD.Status != sa.StatusInvalid {
		t.Errorf("more GIDs than the packet has: %#x", h.MAD.Status)
	}
}
