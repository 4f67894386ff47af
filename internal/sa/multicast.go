package sa

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/cma"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/machine"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A groupKey is a multicast group and how the port is a member of it.
type groupKey struct {
	mgid  mad.GID
	state uint8 // JoinState: one bit
}

// A group is a membership of the port. All joins of the client with the same key share it, and the
// last one that leaves ends it.
type group struct {
	users   int // joins and leaves under way, and members; the client's mutex guards it
	members []*member
	over    reason.Detail // why the port is no member any more, otherwise empty

	turn   chan struct{} // holds a token unless the administrator is being asked
	joined bool          // the administrator knows the port; who has the turn changes it
	record sa.MCMemberRecord
}

// A member is one join.
type member struct {
	key  groupKey
	in   *group
	lost func(reason.Detail)
}

// Join implements cma.Fabric. It joins as Linux's rdma_cm does: service level, flow label and
// traffic class are those of the partition's broadcast group, if there is one.
func (c *Client) Join(ctx context.Context, j *cma.FabricJoin) (*cma.FabricGroup, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	m := &member{key: groupKey{mad.GIDFrom(j.MGID), sa.JoinFull}, lost: j.Lost}
	if j.SendOnly {
		m.key.state = sa.JoinSendOnlyFull
	}
	m.in = c.enter(m.key)
	defer c.exit(m)
	g := m.in
	select {
	case <-g.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { g.turn <- struct{}{} }()
	if !g.joined {
		if err := c.join(ctx, m, j.QKey); err != nil {
			return nil, err
		}
	}
	return c.admit(m, j.QKey)
}

// enter returns the group of a key. A group whose MGID the administrator chooses has no key yet.
func (c *Client) enter(k groupKey) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[k]
	if g == nil || k.mgid == (mad.GID{}) {
		g = &group{turn: make(chan struct{}, 1)}
		g.turn <- struct{}{}
		if k.mgid != (mad.GID{}) {
			c.groups[k] = g
		}
	}
	g.users++
	return g
}

// exit ends enter.
func (c *Client) exit(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.in.users--; m.in.users == 0 && c.groups[m.key] == m.in {
		delete(c.groups, m.key)
	}
}

// join makes the port a member. The caller has the group's turn.
func (c *Client) join(ctx context.Context, m *member, qkey uint32) error {
	i := c.port.Info()
	key, _ := c.Partition()
	q := sa.MCMemberRecord{MGID: m.key.mgid, PortGID: mad.GIDFrom(fabric.Config(i).GIDs[0]), QKey: qkey, PKey: key, JoinState: m.key.state}
	b, err := c.broadcast(ctx, key)
	if err == nil {
		q.SL, q.FlowLabel, q.TrafficClass = b.SL, b.FlowLabel, b.TrafficClass
	} else if b = nil; ctx.Err() != nil {
		return err
	}
	mask := uint64(sa.MemberMGID | sa.MemberPortGID | sa.MemberPKey | sa.MemberJoinState | sa.MemberQKey | sa.MemberSL |
		sa.MemberFlowLabel | sa.MemberTrafficClass)
	if cma.OfIP(q.MGID.Addr()) && b != nil { // RFC 4391 5: as the broadcast group
		q.MTU, q.Rate, q.HopLimit = b.MTU, b.Rate, b.HopLimit
		mask |= sa.MemberMTU | sa.MemberMTUSelector | sa.MemberRate | sa.MemberRateSelector | sa.MemberHopLimit
	}
	var r sa.MCMemberRecord
	if err := c.ask(ctx, &question{mad.MethodSet, sa.AttrMCMemberRecord, mask, &q}, &r); err != nil {
		if ctx.Err() != nil { // the administrator may have heard of it
			c.quit(&q, func() {})
		}
		return err
	}
	if mlid := ib.LID(r.MLID); !mlid.Multicast() || mad.MTU(r.MTU.Value).Bytes() == 0 {
		return reason.Detail{Reason: reason.SAGroup, Expected: firstMulticast, Found: uint64(r.MLID)}.Err()
	}
	m.in.joined, m.in.record = true, r
	c.port.SetMember(attach.Membership{MGID: r.MGID, State: m.key.state}, true)
	return nil
}

const firstMulticast = 0xc000 // IBTA 4.1.3

// broadcast returns the broadcast group of IP over InfiniBand in a partition (RFC 4391 5).
func (c *Client) broadcast(ctx context.Context, key uint16) (*sa.MCMemberRecord, error) {
	var r sa.MCMemberRecord
	q := sa.MCMemberRecord{MGID: mad.GIDFrom(cma.Broadcast(key))}
	return &r, c.ask(ctx, &question{mad.MethodGet, sa.AttrMCMemberRecord, sa.MemberMGID, &q}, &r)
}

// DatagramKey implements cma.Fabric.
func (c *Client) DatagramKey() (uint32, error) {
	key, _ := c.Partition()
	r, err := c.broadcast(c.life, key)
	if err != nil {
		return 0, fmt.Errorf("broadcast group of partition %#04x: %w", key, err)
	}
	return r.QKey, nil
}

// admit adds a join to the group that the port has joined. The caller has the turn.
func (c *Client) admit(m *member, qkey uint32) (*cma.FabricGroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, r := m.in, &m.in.record
	switch {
	case g.over.Reason != reason.None: // meanwhile
		return nil, g.over.Err()
	case r.QKey != qkey:
		return nil, reason.Detail{Reason: reason.CMQKey, Expected: uint64(qkey), Found: uint64(r.QKey)}.Err()
	case m.key.mgid == (mad.GID{}):
		m.key.mgid = r.MGID
		c.groups[m.key] = g
	}
	g.users++
	g.members = append(g.members, m)
	return &cma.FabricGroup{
		Path: qp.Path{
			Dst: netip.AddrPortFrom(r.MGID.Addr(), r.MLID), ServiceLevel: r.SL, FlowLabel: r.FlowLabel,
			TrafficClass: r.TrafficClass, HopLimit: r.HopLimit,
		},
		QKey: r.QKey, PKey: r.PKey, MTU: mad.MTU(r.MTU.Value).Bytes(), Rate: r.Rate.Value,
		Leave: func() { c.leave(m) },
	}, nil
}

// leave ends a membership. It does not wait: the administrator's answer is awaited later, and so
// is the end of a join that is under way.
func (c *Client) leave(m *member) {
	select {
	case <-m.in.turn:
		c.leaveNow(m)
	default:
		go func() {
			select {
			case <-m.in.turn:
				c.leaveNow(m)
			case <-c.life.Done():
			}
		}()
	}
}

// leaveNow is leave with the group's turn, which it releases.
func (c *Client) leaveNow(m *member) {
	g := m.in
	end := func() {
		c.exit(m)
		g.turn <- struct{}{}
	}
	c.mu.Lock()
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
	last := len(g.members) == 0 && g.over.Reason == reason.None
	c.mu.Unlock()
	if !last {
		end()
		return
	}
	g.joined = false
	c.port.SetMember(attach.Membership{MGID: g.record.MGID, State: m.key.state}, false)
	q := sa.MCMemberRecord{MGID: g.record.MGID, PortGID: g.record.PortGID, JoinState: m.key.state}
	c.quit(&q, end)
}

// quit ends the port's membership, and calls done when the administrator has answered or will
// not. The first request is sent at once, because the device may be about to close.
func (c *Client) quit(q *sa.MCMemberRecord, done func()) {
	const mask = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState
	x, err := c.begin(&question{mad.MethodDelete, sa.AttrMCMemberRecord, mask, q})
	if err != nil { // the device is closed
		done()
		return
	}
	if err := x.send(); err != nil {
		x.forget()
		done()
		return
	}
	go func() {
		defer done()
		defer x.forget()
		_ = x.await(c.life, new(sa.MCMemberRecord)) // without an answer there is nothing to be done
	}()
}

// endings are the events after which the administrator may not know the port's memberships any
// more. Linux gives them up as well, and programs join again.
var endings = map[attach.Event]machine.Event{
	attach.PortError: machine.EventPortErr, attach.LIDChanged: machine.EventLIDChange, attach.ManagerChanged: machine.EventSMChange,
	attach.ClientReregister: machine.EventClientReregister, attach.PartitionsChanged: machine.EventPKeyChange,
}

// inPartition reports whether a port with these keys is a member of a partition.
func inPartition(keys []uint16, key uint16) bool {
	return slices.ContainsFunc(keys, func(k uint16) bool { return k&^smp.FullMember == key&^smp.FullMember })
}

// changed ends the memberships after such an event, that of a partition only with its key.
func (c *Client) changed(_, now *attach.Info, e attach.Event) {
	t, ok := endings[e]
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, g := range c.groups {
		if e == attach.PartitionsChanged && inPartition(now.PKeys, g.record.PKey) {
			continue
		}
		g.over = reason.Detail{Reason: reason.SAForgotten, Expected: uint64(g.record.MLID), Found: uint64(t)}
		delete(c.groups, k)
		for _, m := range g.members {
			go m.lost(g.over)
		}
	}
}
