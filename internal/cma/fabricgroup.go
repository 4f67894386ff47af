package cma

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// The signatures in the MGIDs of IP groups: those of IP over InfiniBand (RFC 4391 4), and those
// that Linux's rdma_cm has instead for the groups of PortSpaceUDP.
const (
	signatureIP4  = 0x401b
	signatureIP6  = 0x601b
	signatureCM4  = 0x4001
	signatureCM6  = 0x6001
	signatureSA   = 0xa01b // of groups to which an administrator has given the MGID
	linkLocal     = 2      // scope
	fullMember    = 0x8000 // of a P_Key
	transientFlag = 0x10   // RFC 4291 2.7
)

// Broadcast returns the MGID of the broadcast group of IP over InfiniBand in a partition.
func Broadcast(key uint16) netip.Addr {
	return ipGroup(netip.AddrFrom4([4]byte{255, 255, 255, 255}), signatureIP4, signatureIP6, key)
}

// OfIP reports whether an MGID is that of a group of IP over InfiniBand.
func OfIP(mgid netip.Addr) bool {
	b := mgid.As16()
	signature := binary.BigEndian.Uint16(b[2:])
	return b[0] == 0xff && (signature == signatureIP4 || signature == signatureIP6)
}

// fabricMGID returns the MGID of a group of ids of a port space on an InfiniBand fabric, as Linux
// derives it (cma_set_mgid). It is the zero GID, for which the administrator chooses one, if
// the address is unspecified.
func fabricMGID(ip netip.Addr, space cmid.PortSpace, key uint16) netip.Addr {
	b := ip.As16()
	switch {
	case ip.IsUnspecified():
		return netip.IPv6Unspecified()
	case !ip.Is4() && b[0] == 0xff && b[1]&0xf0 == transientFlag && binary.BigEndian.Uint16(b[2:]) == signatureSA:
		return ip
	case space == cmid.PortSpaceUDP:
		return ipGroup(ip, signatureCM4, signatureCM6, key)
	}
	return ipGroup(ip, signatureIP4, signatureIP6, key)
}

// ipGroup puts the last 28 bits of an IPv4 address, or 80 of an IPv6 address, into an MGID of
// link-local scope (RFC 4391 4). A group of all has all 32 bits.
func ipGroup(ip netip.Addr, signature4, signature6, key uint16) netip.Addr {
	b := [16]byte{0: 0xff, 1: transientFlag | linkLocal}
	binary.BigEndian.PutUint16(b[4:], key|fullMember)
	if !ip.Is4() {
		v := ip.As16()
		binary.BigEndian.PutUint16(b[2:], signature6)
		copy(b[6:], v[6:])
		return netip.AddrFrom16(b)
	}
	v := ip.As4()
	binary.BigEndian.PutUint16(b[2:], signature4)
	copy(b[12:], v[:])
	if ip.IsMulticast() {
		b[12] &= 0x0f
	}
	return netip.AddrFrom16(b)
}

// joinFabric asks the administrator for the membership. The event comes with its answer.
func (id *ID) joinFabric(g *group, sendOnly bool) {
	f, m := id.dev.fabric, id.m
	key, _ := f.Partition()
	j := &FabricJoin{MGID: fabricMGID(g.addr, id.space, key), QKey: id.datagram.defaultQKey(), SendOnly: sendOnly}
	ctx, cancel := context.WithCancel(context.Background())
	g.end = cancel
	told := make(chan struct{})
	j.Lost = func(why reason.Detail) {
		<-told // the event of the join goes first
		m.lock()
		defer m.unlock()
		id.groupFailed(g, cmid.StatusReset, why.Err())
	}
	m.inbox.running.Go(func() {
		joined, err := f.Join(ctx, j)
		cancel()
		m.lock()
		defer m.unlock()
		defer close(told)
		id.joined(g, joined, err)
	})
}

// joined reports the administrator's answer, unless the id has left meanwhile.
func (id *ID) joined(g *group, joined *FabricGroup, err error) {
	switch {
	case err != nil:
		id.groupFailed(g, joinStatus(err), err)
	case !slices.Contains(id.groups, g):
		joined.Leave()
	default:
		g.end = joined.Leave
		id.push(Event{
			Type: cmid.EventMulticastJoin, Group: g.addr, Context: g.context,
			UD: cmid.UDParam{Path: joined.Path, QPN: multicastQPN, QKey: joined.QKey},
		})
	}
}

// groupFailed reports that a group could not be joined, or that the membership has ended. As in
// Linux the program leaves the group nevertheless.
func (id *ID) groupFailed(g *group, status int, err error) {
	if !slices.Contains(id.groups, g) {
		return
	}
	g.leave()
	id.push(Event{
		Type: cmid.EventMulticastError, Group: g.addr, Context: g.context, Status: status,
		Err: fmt.Errorf("multicast group %v: %w", g.addr, err), Detail: detail(err, reason.None),
	})
}

// joinStatus is the number that Linux has for the failure of a join.
func joinStatus(err error) int {
	switch detail(err, reason.None).Reason {
	case reason.SANone:
		return cmid.StatusAgain
	case reason.SATimeout:
		return cmid.StatusTimedOut
	case reason.SAForgotten:
		return cmid.StatusReset
	}
	return cmid.StatusInvalid
}
