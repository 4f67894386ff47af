package cma

import (
	"fmt"
	"net/netip"

	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// hopLimit is that of Linux's routes that name none.
const hopLimit = 64

// ResolveAddr finds the local address and the device for a peer, which the
// event EventAddrResolved or EventAddrError tells. An id that is not bound yet
// is bound to src; the zero AddrPort leaves the choice to the host's routing.
// The unspecified address as destination means the loopback.
func (id *ID) ResolveAddr(src, dst netip.AddrPort) error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("resolve address", cmid.Idle, cmid.AddrBound); err != nil {
		return err
	}
	dst = unmap(dst)
	if !dst.Addr().IsValid() {
		return reason.BadArgument(0, 0, "resolve address: expected the peer's IP address, found none")
	}
	if dst.Addr().IsUnspecified() {
		dst = netip.AddrPortFrom(loopback(dst.Addr()), dst.Port())
	}
	if id.state == cmid.Idle {
		if !src.IsValid() {
			src = netip.AddrPortFrom(wildcard(dst.Addr()), 0)
		}
		if err := id.bind(src, dst); err != nil {
			return fmt.Errorf("resolve address: %w", err)
		}
	}
	if id.local.Addr().Is4() != dst.Addr().Is4() {
		return reason.BadArgument(0, 0, "resolve address: expected a peer of the family of %v, found %v", id.local.Addr(), dst.Addr())
	}
	id.remote, id.state = dst, cmid.AddrQuery
	if err := id.findSource(); err != nil {
		id.state = cmid.AddrBound
		id.push(Event{
			Type: cmid.EventAddrError, Status: cmid.StatusNoDevice, Err: fmt.Errorf("resolve address %v: %w", dst, err),
			Detail: reason.Detail{Reason: reason.AddressUnreachable},
		})
		return nil
	}
	id.state = cmid.AddrResolved
	id.push(Event{Type: cmid.EventAddrResolved})
	return nil
}

// findSource gives an id without a device the one by which it reaches its peer,
// and the address of that device.
func (id *ID) findSource() error {
	if id.dev != nil {
		return nil
	}
	x, err := id.m.host.Reach(id.remote.Addr(), id.option.device)
	if err != nil {
		return err
	}
	d, err := id.m.leased(x)
	if err != nil {
		return err
	}
	if err := id.own(d); err != nil {
		return fmt.Errorf("no device for local address %v: %w", d.dev.Local().Addr(), err)
	}
	id.local = netip.AddrPortFrom(id.dev.dev.Local().Addr(), id.local.Port())
	return nil
}

func loopback(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

func wildcard(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// ResolveRoute finds the path to the peer, which the event EventRouteResolved
// tells. RoCE has no subnet administrator to ask: the path is the device's, the
// host's routing's and the options'.
func (id *ID) ResolveRoute() error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("resolve route", cmid.AddrResolved); err != nil {
		return err
	}
	o := &id.option
	id.route = Route{
		Path: qp.Path{
			Dst: udp(id.remote.Addr(), o.remoteUDP), HopLimit: hopLimit, TrafficClass: o.tos, FlowLabel: id.flowLabel(),
		},
		MTU:            id.pathMTU(),
		PacketLifeTime: cm.DefaultPacketLifeTime,
	}
	if o.ackTimeoutSet && o.ackTimeout != 0 {
		// IBTA 12.7.34: the acknowledge timeout is twice the packet life time and
		// the peer's delay, which is little.
		id.route.PacketLifeTime = o.ackTimeout - 1
	}
	id.state = cmid.RouteResolved
	id.push(Event{Type: cmid.EventRouteResolved})
	return nil
}

// pathMTU is what both the device and the way to the peer have room for.
func (id *ID) pathMTU() int {
	mtu := id.dev.dev.MTU()
	if known := id.m.host.PathMTU(id.remote.Addr()); known != 0 {
		mtu = min(mtu, known)
	}
	return mtu
}

// flowLabel spreads connections over the network's paths by their ports, with
// Linux's formula, so that both ends compute the like.
func (id *ID) flowLabel() uint32 {
	return (uint32(id.local.Port())*31 + uint32(id.remote.Port())) & 0xfffff
}

// push queues an event of the id.
func (id *ID) push(e Event) {
	e.ID = id
	id.ch.push(e)
}
