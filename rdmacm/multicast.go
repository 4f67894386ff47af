package rdmacm

import (
	"fmt"
	"net/netip"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// JoinMulticast joins a group (rdma_join_multicast). EventMulticastJoin says where to send;
// from then on the queue pair receives datagrams to the group. Context is the event's Context.
//
// On an InfiniBand fabric the port becomes a member at the subnet administrator.
// EventMulticastError reports that the administrator refuses or does not answer. It also comes
// later, with ENETRESET as Status, when the membership has ended because the port went down or
// has another LID, partition or manager: leave the group then, and join it again when the port
// is active.
func (id *ID) JoinMulticast(group netip.Addr, context any) error {
	return id.join(group, context, id.c.JoinMulticast)
}

// JoinMulticastToSend is JoinMulticast for an id that only sends to the group: its queue pair does
// not receive what others send to it. On an InfiniBand fabric switches forward nothing of the
// group to the port (SendOnlyFullMember, IBTA 15.2.5.17).
func (id *ID) JoinMulticastToSend(group netip.Addr, context any) error {
	group = group.Unmap()
	id.mu.Lock()
	_, member := id.groups[group]
	if !member {
		if id.groups == nil {
			id.groups = make(map[netip.Addr]netip.Addr)
		}
		id.groups[group] = netip.Addr{}
	}
	id.mu.Unlock()
	err := id.join(group, context, id.c.JoinMulticastToSend)
	if err != nil && !member {
		id.mu.Lock()
		delete(id.groups, group)
		id.mu.Unlock()
	}
	return err
}

func (id *ID) join(group netip.Addr, context any, join func(netip.Addr, any) error) error {
	group = group.Unmap()
	if !group.IsMulticast() {
		return reason.BadArgument(0, 0, "join multicast: expected a multicast group, found %v", group)
	}
	if err := join(group, context); err != nil {
		return fmt.Errorf("join multicast group %v: %w", group, public(err))
	}
	return nil
}

// joined attaches the queue pair to the group of an event, unless it only sends there.
func (id *ID) joined(e *Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if at, known := id.groups[e.group]; id.qp == nil || known && !at.IsValid() {
		return
	}
	err := id.qp.AttachMulticast(e.UD.AV.DGID.Addr())
	if err == nil {
		if id.groups == nil {
			id.groups = make(map[netip.Addr]netip.Addr)
		}
		id.groups[e.group] = e.UD.AV.DGID.Addr()
		return
	}
	e.Type, e.Status = EventMulticastError, cmid.StatusInvalid
	e.Err = fmt.Errorf("attach the queue pair to multicast group %v: %w", e.group, err)
}

// LeaveMulticast leaves a group (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	group = group.Unmap()
	id.mu.Lock()
	at, attached := id.groups[group]
	q := id.qp
	delete(id.groups, group)
	id.mu.Unlock()
	var err error
	if attached && at.IsValid() && q != nil {
		err = q.DetachMulticast(at)
	}
	if e := id.c.LeaveMulticast(group); e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("leave multicast group %v: %w", group, public(err))
	}
	return nil
}
