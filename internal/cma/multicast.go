package cma

import (
	"net/netip"
	"slices"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// multicastQPN is the destination queue pair number of multicast datagrams (IBTA
// 10.5).
const multicastQPN = 0xffffff

// A group is a multicast group that an id has joined.
type group struct {
	addr    netip.Addr
	context any
	end     func() // ends the membership on a fabric, or the join; nil for nothing
}

// leave ends the id's membership on the fabric and in the communication manager.
func (g *group) leave() {
	if g.end != nil {
		g.end()
		g.end = nil
	}
}

// JoinMulticast makes the id a member of a group. EventMulticastJoin has the
// parameters for datagrams to the group and the group as queue pairs attach to it.
// Attaching makes the host's network deliver it (IGMP, MLD). The events of the
// group carry context.
//
// On an InfiniBand fabric the subnet administrator makes the port a member. The event comes with
// its answer, as EventMulticastError if it refuses or is silent. EventMulticastError may also
// come later, when the membership has ended because the port went down or has another manager,
// LID or partition. The program then leaves the group and may join it again. An unspecified
// address lets the administrator choose the MGID.
func (id *ID) JoinMulticast(addr netip.Addr, context any) error {
	return id.join(addr, false, context)
}

// JoinMulticastToSend is JoinMulticast for an id that only sends to the group: on a fabric
// switches forward nothing of the group to it.
func (id *ID) JoinMulticastToSend(addr netip.Addr, context any) error {
	return id.join(addr, true, context)
}

func (id *ID) join(addr netip.Addr, sendOnly bool, context any) error {
	id.m.lock()
	defer id.m.unlock()
	const op = "join multicast"
	if err := id.want(op, cmid.AddrBound, cmid.AddrResolved); err != nil {
		return err
	}
	addr = addr.Unmap()
	switch {
	case id.kind != qp.UD:
		return reason.BadArgument(0, 0, "%s: expected service type UD, found %v", op, id.kind)
	case id.dev == nil:
		return reason.BadArgument(0, 0, "%s: expected an id bound to an address of this host, found %v", op, id.local)
	case id.dev.fabric != nil && (addr.IsMulticast() || addr.IsUnspecified()):
		g := &group{addr: addr, context: context}
		id.groups = append(id.groups, g)
		id.joinFabric(g, sendOnly)
		return nil
	case !addr.IsMulticast():
		return reason.BadArgument(0, 0, "%s: expected a multicast group, found %v", op, addr)
	case addr.Is4() != id.local.Addr().Is4():
		return reason.BadArgument(0, 0, "%s: expected a group of the family of %v, found %v", op, id.local.Addr(), addr)
	}
	id.groups = append(id.groups, &group{addr: addr, context: context})
	id.push(Event{
		Type: cmid.EventMulticastJoin, Group: addr, Context: context,
		UD: cmid.UDParam{
			Path: qp.Path{Dst: udp(id.dev.dev.GroupGID(addr), id.option.remoteUDP), HopLimit: hopLimit, TrafficClass: id.option.tos},
			QPN:  multicastQPN, QKey: id.datagram.defaultQKey(),
		},
	})
	return nil
}

// LeaveMulticast ends the membership. It drops a queued event of the group.
func (id *ID) LeaveMulticast(addr netip.Addr) error {
	id.m.lock()
	defer id.m.unlock()
	addr = addr.Unmap()
	i := slices.IndexFunc(id.groups, func(g *group) bool { return g.addr == addr })
	if i < 0 {
		return reason.BadArgument(0, 0, "leave multicast: the id has not joined %v", addr)
	}
	id.groups[i].leave()
	id.groups = slices.Delete(id.groups, i, i+1)
	id.ch.drop(id, func(e *Event) bool { return e.Group == addr })
	return nil
}

// MGID returns the multicast GID of a group in RoCE v2, derived as Linux does: the
// IPv6 address, or the IPv4-mapped one.
func MGID(group netip.Addr) [16]byte { return group.As16() }
