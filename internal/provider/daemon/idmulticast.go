//go:build linux

package daemon

import (
	"net/netip"
	"slices"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A membership is a multicast group that an id has joined.
type membership struct {
	id      *id
	uid     uint64
	num     uint32 // the daemon's number of the membership
	addr    netip.Addr
	context any
}

// JoinMulticast implements provider.Multicast.
func (x *id) JoinMulticast(addr netip.Addr, context any) error { return x.join(addr, context, 0) }

// JoinMulticastToSend implements provider.Multicast.
func (x *id) JoinMulticastToSend(addr netip.Addr, context any) error {
	return x.join(addr, context, sendOnly)
}

// sendOnly is rdma_cm's flag of a member that only sends.
const sendOnly = 1

func (x *id) join(addr netip.Addr, context any, flags uint16) error {
	h, err := x.channel("join multicast")
	if err != nil {
		return err
	}
	g := &membership{id: x, addr: addr.Unmap(), context: context}
	g.uid = x.d.own(g)
	q := uapi.CMJoinCmd{UID: g.uid, ID: x.num, JoinFlags: flags}
	uapi.PutAddr(q.Addr[:], netip.AddrPortFrom(g.addr, 0))
	q.AddrSize = uint16(len(q.Addr))
	a, err := h.ask(uapi.CMJoinMcast, uapi.Bytes(&q), uapi.Size[uapi.HandleOnly]())
	if err != nil {
		x.d.disown(g.uid)
		return err
	}
	r, _ := uapi.Parse[uapi.HandleOnly](a)
	x.mu.Lock()
	defer x.mu.Unlock()
	g.num = r.Handle
	if x.destroyed {
		x.d.disown(g.uid)
		return nil
	}
	x.groups = append(x.groups, g)
	return nil
}

// LeaveMulticast implements provider.Multicast.
func (x *id) LeaveMulticast(addr netip.Addr) error {
	const op = "leave multicast"
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	x.mu.Lock()
	i := slices.IndexFunc(x.groups, func(g *membership) bool { return g.addr == addr.Unmap() })
	if i < 0 {
		x.mu.Unlock()
		return reason.BadArgument(0, 0, "%s: the id has not joined %v", op, addr)
	}
	g := x.groups[i]
	x.groups = slices.Delete(x.groups, i, i+1)
	x.mu.Unlock()
	x.d.disown(g.uid)
	_, err = h.ask(uapi.CMLeaveMcast, uapi.Bytes(&uapi.CMByID{ID: g.num}), uapi.Size[uapi.DestroyResp]())
	return err
}
