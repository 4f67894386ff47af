package sa

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/cma"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/partitions"
	"softrdma/internal/management/sm"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
)

var mgid = netip.MustParseAddr("ff12:4001:ffff::e01:203")

const qkey = 0x01234567

// joined joins the group, for a member that is not to lose it.
func joined(t *testing.T, c *Client, j cma.FabricJoin) *cma.FabricGroup {
	t.Helper()
	if !j.MGID.IsValid() {
		j.MGID = mgid
	}
	j.QKey = qkey
	if j.Lost == nil {
		j.Lost = func(d reason.Detail) { t.Errorf("lost: %v", d.Err()) }
	}
	g, err := c.Join(t.Context(), &j)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// groupOf asks the administrator for the group, nil if there is none.
func groupOf(t *testing.T, c *Client) *sa.MCMemberRecord {
	t.Helper()
	return find(t, c, sa.MemberMGID, &sa.MCMemberRecord{MGID: mad.GIDFrom(mgid)})
}

// isMember reports whether the administrator has the client's port as a member.
func isMember(t *testing.T, c *Client, state uint8) bool {
	t.Helper()
	q := sa.MCMemberRecord{MGID: mad.GIDFrom(mgid), PortGID: mad.GIDFrom(fabric.Config(c.port.Info()).GIDs[0]), JoinState: state}
	return find(t, c, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState, &q) != nil
}

func find(t *testing.T, c *Client, mask uint64, q *sa.MCMemberRecord) *sa.MCMemberRecord {
	t.Helper()
	var r sa.MCMemberRecord
	err := c.ask(t.Context(), &question{mad.MethodGet, sa.AttrMCMemberRecord, mask, q}, &r)
	var named *reason.Error
	switch {
	case err == nil:
		return &r
	case !errors.As(err, &named) || named.Detail != (reason.Detail{Reason: reason.SAStatus, Found: uint64(sa.StatusNoRecords)}):
		t.Fatal(err)
	}
	return nil
}

func wantNoGroup(t *testing.T, c *Client) {
	t.Helper()
	fabrictest.WaitFor(t, "the group's end", func() bool { return groupOf(t, c) == nil })
}

// A group begins with its first member, and ends with its last one. The joins of a port share its
// membership.
func TestGroupOfTwoPorts(t *testing.T) {
	f := fabrictest.Start(t, "star:3")
	a, d := open(t, f, 0)
	b, e := open(t, f, 1)
	c, other := open(t, f, 2)
	active(t, d)
	active(t, e)
	active(t, other)
	wantNoGroup(t, c)
	first, second, third := joined(t, a, cma.FabricJoin{}), joined(t, a, cma.FabricJoin{}), joined(t, b, cma.FabricJoin{SendOnly: true})
	if first.Path != second.Path || first.Path != third.Path || first.Path.LID() < firstMulticast || first.Path.Dst.Addr() != mgid ||
		first.QKey != qkey || first.PKey != 0xffff || first.MTU != 2048 {
		t.Errorf("joined %+v, %+v, %+v", first, second, third)
	}
	if r := groupOf(t, c); r == nil || r.MLID != first.Path.LID() || r.QKey != qkey {
		t.Errorf("the administrator has %+v", r)
	}
	_, err := c.Join(t.Context(), &cma.FabricJoin{MGID: mgid, QKey: 5})
	wantReason(t, err, reason.Detail{Reason: reason.SAStatus, Found: uint64(sa.StatusInvalid)})
	_, err = a.Join(t.Context(), &cma.FabricJoin{MGID: mgid, QKey: 5})
	wantReason(t, err, reason.Detail{Reason: reason.CMQKey, Expected: 5, Found: qkey})
	if !isMember(t, a, sa.JoinFull) || !isMember(t, b, sa.JoinSendOnlyFull) || isMember(t, c, sa.JoinFull) {
		t.Error("other members than those that joined")
	}
	first.Leave()
	if r := groupOf(t, c); r == nil {
		t.Error("the group has ended with the first of two joins of a port")
	}
	second.Leave()
	fabrictest.WaitFor(t, "the port to leave", func() bool { return !isMember(t, a, sa.JoinFull) })
	third.Leave()
	wantNoGroup(t, c)
	joined(t, a, cma.FabricJoin{}).Leave()
	wantNoGroup(t, c)
}

// A device that closes leaves its groups.
func TestGroupsOfADeviceThatCloses(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, d := open(t, f, 0)
	b, e := open(t, f, 1)
	active(t, d)
	active(t, e)
	g := joined(t, a, cma.FabricJoin{})
	if !isMember(t, a, sa.JoinFull) {
		t.Error("no member")
	}
	g.Leave()
	a.Close() // at once, without the answer
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wantNoGroup(t, b)
}

// The fabric leaves the groups of a program that ends without leaving them, as one that is killed.
func TestGroupsOfAProgramThatIsKilled(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, d := open(t, f, 0)
	b, e := open(t, f, 1)
	active(t, d)
	active(t, e)
	joined(t, a, cma.FabricJoin{})
	if !isMember(t, a, sa.JoinFull) {
		t.Error("no member")
	}
	a.Close() // leaves nothing: the socket of the port tells the fabric of the end
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wantNoGroup(t, b)
}

func TestPartitionOfIDs(t *testing.T) {
	for _, c := range []struct {
		keys       []uint16
		key, index uint16
	}{
		{[]uint16{0xffff, 0x8001, 0}, 0xffff, 0},
		{[]uint16{0, 0x8001, 0x7fff}, 0x7fff, 2}, // wherever the default partition is
		{[]uint16{0, 0x8001, 0x8002}, 0x8001, 1},
		{[]uint16{0, 0}, 0, 0},
		{nil, 0, 0},
	} {
		if key, index := defaultPartition(c.keys); key != c.key || index != c.index {
			t.Errorf("%#x: found %#x at %d, expected %#x at %d", c.keys, key, index, c.key, c.index)
		}
	}
}

// A partition's broadcast group gives groups their service level, as IP over InfiniBand has it.
func TestGroupHasTheServiceLevelOfItsPartition(t *testing.T) {
	f := fabrictest.StartWith(t, "star:2", func(c *live.Config) {
		list, err := partitions.Parse("test", "Default=0x7fff : ALL=full;", c.Fabric, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.Manager = &sm.Config{Partitions: list}
	})
	a, d := open(t, f, 0)
	active(t, d)
	i := d.Port.Info()
	q := sa.MCMemberRecord{
		MGID: mad.GIDFrom(cma.Broadcast(0xffff)), PortGID: mad.GIDFrom(fabric.Config(i).GIDs[0]), PKey: 0xffff, SL: 3, FlowLabel: 7, TrafficClass: 9, JoinState: sa.JoinFull,
	}
	const mask = sa.MemberMGID | sa.MemberPortGID | sa.MemberPKey | sa.MemberJoinState | sa.MemberQKey | sa.MemberSL |
		sa.MemberFlowLabel | sa.MemberTrafficClass
	if err := a.ask(t.Context(), &question{mad.MethodSet, sa.AttrMCMemberRecord, mask, &q}, new(sa.MCMemberRecord)); err != nil {
		t.Fatal(err)
	}
	g := joined(t, a, cma.FabricJoin{})
	if p := g.Path; p.ServiceLevel != 3 || p.FlowLabel != 7 || p.TrafficClass != 9 || g.PKey != 0xffff {
		t.Errorf("joined %+v", g)
	}
	g.Leave()
}

// The end of the fabric ends memberships, also for a member that leaves later.
func TestMembershipEndsWithThePort(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, d := open(t, f, 0)
	active(t, d)
	lost := make(chan reason.Detail, 1)
	g := joined(t, a, cma.FabricJoin{Lost: func(d reason.Detail) { lost <- d }})
	f.Restart()
	if why := <-lost; why.Reason != reason.SAForgotten || why.Expected != uint64(g.Path.LID()) || why.Found == 0 {
		t.Errorf("lost: %v", why.Err())
	}
	active(t, d)
	again := joined(t, a, cma.FabricJoin{})
	g.Leave() // of the earlier membership
	if !isMember(t, a, sa.JoinFull) {
		t.Error("the end of an earlier membership has ended the next one")
	}
	again.Leave()
	wantNoGroup(t, a)
}

// A join that is given up, and one without an answer.
func TestJoinWithoutAnAnswer(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, d := open(t, f, 0)
	active(t, d)
	f.Do(func(_ time.Duration, _ *subnet.Subnet, m *sm.Manager) { m.Stop() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := a.Join(ctx, &cma.FabricJoin{MGID: mgid, QKey: qkey}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	a.wait = 5 * time.Millisecond
	_, err := a.Join(t.Context(), &cma.FabricJoin{MGID: mgid, QKey: qkey})
	wantReason(t, err, reason.Detail{Reason: reason.SATimeout, Expected: 20, Found: uint64(d.Port.Info().PortInfo.MasterSMLID)})
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.groups) != 0 {
		t.Errorf("%d groups are left", len(a.groups))
	}
}
