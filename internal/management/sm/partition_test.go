package sm

import (
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// parted returns a client at node-2 of a fat tree with two partitions: node-2, node-5 and, as a
// limited member, node-6 are in 0x8001, node-9 is in 0x8002.
func parted(t *testing.T) *client {
	r := newRig(t, "fat-tree:k=4")
	guid := func(name string) uint64 {
		e, _, _ := r.end(name)
		return r.f.Port(e).GUID
	}
	c := Config{Partitions: []Partition{
		{Key: smp.DefaultPKey, All: LimitedMember},
		{Key: 1, IPoIB: true, Members: map[uint64]Membership{guid("node-2"): FullMember, guid("node-5"): FullMember, guid("node-6"): LimitedMember}},
		{Key: 2, Members: map[uint64]Membership{guid("node-9"): FullMember, guid("node-6"): LimitedMember, guid("node-7"): LimitedMember}},
	}}
	m := r.manage(len(r.nodes)-1, c)
	r.settle(m)
	_, lid, _ := r.end("node-2")
	return &client{r: r, m: m, lid: lid}
}

func TestPartitionsAreInTheTablesOfPortsAndSwitches(t *testing.T) {
	c := parted(t)
	for name, want := range map[string]smp.PKeyTable{"node-2": {0x7fff, 0x8001}, "node-6": {0x7fff, 1, 2}, "node-9": {0x7fff, 0x8002}, "node-1": {0x7fff}} {
		e, _, _ := c.r.end(name)
		if got := c.r.nodes[e.Node].keys[[2]int{1, 0}]; got != want {
			t.Errorf("%s has %x, expected %x", name, got, want)
		}
		peer := c.r.f.Port(e).Peer
		for i := range want {
			if want[i] != 0 {
				want[i] |= smp.FullMember
			}
		}
		if got := c.r.nodes[peer.Node].keys[[2]int{peer.Port, 0}]; got != want {
			t.Errorf("the switch's port to %s has %x, expected %x", name, got, want)
		}
		if x := c.r.nodes[peer.Node].configs[peer.Port]; !x.EnforceInbound || !x.EnforceOutbound {
			t.Errorf("the switch's port to %s does not enforce partitions", name)
		}
	}
}

func TestPathsJoinMembersOfAPartition(t *testing.T) {
	c := parted(t)
	for _, x := range []struct {
		from, to string
		key      uint16 // asked for
		want     uint16 // 0 for no path
	}{
		{"node-2", "node-5", 0, 0x8001}, {"node-2", "node-6", 0, 0x8001}, {"node-6", "node-2", 0, 1}, {"node-6", "node-7", 0, 0},
		{"node-6", "node-9", 0, 2}, {"node-2", "node-9", 0, 0}, {"node-2", "node-5", 0x8002, 0}, {"node-6", "node-9", 0x8002, 2},
		{"node-2", "node-1", 0, 0},
	} {
		_, _, sgid := c.r.end(x.from)
		_, _, dgid := c.r.end(x.to)
		q := sa.PathRecord{SGID: sgid, DGID: dgid, PKey: x.key}
		mask := uint64(sa.PathSGID | sa.PathDGID)
		if x.key != 0 {
			mask |= sa.PathPKey
		}
		status := c.get(mad.MethodGet, sa.AttrPathRecord, mask, &q)
		if x.want == 0 && status != sa.StatusNoRecords || x.want != 0 && (status != mad.StatusOK || q.PKey != x.want) {
			t.Errorf("%s to %s in %#x: status %#x, P_Key %#x; expected %#x", x.from, x.to, x.key, status, q.PKey, x.want)
		}
	}
}

func TestGroupsAndServicesAreOfTheirPartition(t *testing.T) {
	c := parted(t)
	group := broadcast
	group[4], group[5] = 0x80, 1
	join := func(name string) uint16 {
		_, lid, gid := c.r.end(name)
		c.lid = lid
		q := sa.MCMemberRecord{MGID: group, PortGID: gid, JoinState: sa.JoinFull}
		return c.get(mad.MethodSet, sa.AttrMCMemberRecord, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState, &q)
	}
	for name, want := range map[string]uint16{"node-2": mad.StatusOK, "node-6": mad.StatusOK, "node-9": sa.StatusInvalid} {
		if got := join(name); got != want {
			t.Errorf("%s joins: %#x, expected %#x", name, got, want)
		}
	}
	_, lid, gid := c.r.end("node-9")
	c.lid = lid
	for key, want := range map[uint16]uint16{0x8001: sa.StatusInvalid, 0x8002: mad.StatusOK} {
		s := sa.ServiceRecord{ServiceID: 1, GID: gid, PKey: key}
		if got := c.get(mad.MethodSet, sa.AttrServiceRecord, 1|2|4, &s); got != want {
			t.Errorf("a service in %#x: %#x, expected %#x", key, got, want)
		}
	}
	if n := tableOf(c, sa.AttrServiceRecord, 0, 0, sa.ServiceRecord{}); len(n) != 1 {
		t.Errorf("a member sees %d services", len(n))
	}
	_, c.lid, _ = c.r.end("node-2")
	if n := tableOf(c, sa.AttrServiceRecord, 0, 0, sa.ServiceRecord{}); len(n) != 0 {
		t.Errorf("another port sees %d services", len(n))
	}
}
