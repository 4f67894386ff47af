package cma

import (
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// hopLimit is Linux's default for a route without a hop limit.
const hopLimit = 64

// ResolveAddr finds the local address and the device for a peer and reports
// EventAddrResolved or EventAddrError. An id that is not bound yet is bound to src;
// with the zero AddrPort the host's routing chooses. An unspecified destination
// means the loopback address.
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
	return id.findPeer()
}

// findPeer ends ResolveAddr. On a fabric it finds the peer's GID first.
func (id *ID) findPeer() error {
	if id.dev.fabric != nil {
		gid, err := id.findGID()
		if id.state != cmid.AddrQuery {
			return err // destroyed, or the device was removed
		}
		if err != nil {
			id.state = cmid.AddrBound
			id.push(Event{
				Type: cmid.EventAddrError, Status: cmid.StatusNoDevice, Err: fmt.Errorf("resolve address %v: %w", id.remote, err),
				Detail: detail(err, reason.AddressUnreachable),
			})
			return nil
		}
		id.route = Route{GID: gid}
	}
	id.state = cmid.AddrResolved
	id.push(Event{Type: cmid.EventAddrResolved})
	return nil
}

// findGID asks a fabric for the GID of the peer, and for what the id's port space needs. It waits,
// and fails if the id is not in the state AddrQuery afterwards.
func (id *ID) findGID() (gid netip.Addr, err error) {
	f, dst, op := id.dev.fabric, id.remote.Addr(), "resolve address"
	if err := id.datagram.findQKey(op, cmid.AddrQuery); err != nil {
		return gid, err
	}
	if dst.IsMulticast() { // a group's address follows from its IP address
		key, _ := f.Partition()
		return fabricMGID(dst, id.space, key), nil
	}
	id.m.apart(func() { gid, err = f.FindGID(dst) })
	if e := id.want(op, cmid.AddrQuery); e != nil {
		return gid, e
	}
	return gid, err
}

// detail returns the named reason of an error, or another one.
func detail(err error, other reason.Reason) reason.Detail {
	if named := (*reason.Error)(nil); errors.As(err, &named) {
		return named.Detail
	}
	return reason.Detail{Reason: other}
}

// findSource sets the device and the address by which an id reaches its peer. The peer of an
// id that has a device must be on a network to which the host has a route, as on Linux.
func (id *ID) findSource() error {
	if id.dev != nil {
		return id.routed()
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
	id.local = netip.AddrPortFrom(id.dev.addr(), id.local.Port())
	return nil
}

// routed returns why the host has no route to the peer. Ports of fabrics and devices of
// RoCE v1 need none.
func (at *endpoint) routed() error {
	if at.dev.fabric != nil || at.dev.dev.Local().Port() == cmid.RoCEv1Port || at.remote.Addr().IsMulticast() {
		return nil
	}
	if err := at.m.host.Routed(at.remote.Addr()); err != nil {
		return fmt.Errorf("no route: %w", err)
	}
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

// ResolveRoute determines the path to the peer and reports EventRouteResolved. RoCE
// has no subnet administrator: the path follows from the device, the host's routing
// and the options. On an InfiniBand fabric the administrator answers it. If the peer is on
// this host, the device connects to it through memory, because messages of the connection
// manager take that path as well. A device that encrypts agrees on keys with the peer's. If the device requires memory and the peer is not reached
// that way, ResolveRoute reports EventRouteError.
func (id *ID) ResolveRoute() error {
	found, why := id.prepare()
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("resolve route", cmid.AddrResolved); err != nil {
		return err
	}
	if why != nil {
		id.push(Event{
			Type: cmid.EventRouteError, Status: cmid.StatusNoDevice, Err: fmt.Errorf("resolve route to %v: %w", id.remote, why),
			Detail: detail(why, reason.None),
		})
		return nil
	}
	o := &id.option
	if found != nil {
		id.route = Route{Path: found.Path, MTU: min(found.MTU, id.dev.dev.MTU()), PacketLifeTime: found.LifeTime, GID: found.GID, PKey: found.PKey, Rate: found.Rate}
	} else {
		id.route = id.plainRoute()
	}
	if o.ackTimeoutSet && o.ackTimeout != 0 {
		// IBTA 12.7.34: the acknowledge timeout is twice the packet lifetime plus
		// the peer's delay, which is small.
		id.route.PacketLifeTime = o.ackTimeout - 1
	}
	id.state = cmid.RouteResolved
	id.push(Event{Type: cmid.EventRouteResolved})
	return nil
}

// plainRoute is the route of a device that has no subnet administrator.
func (at *endpoint) plainRoute() Route {
	o := &at.option
	return Route{
		Path: qp.Path{
			Dst: udp(at.remote.Addr(), o.remoteUDP), HopLimit: hopLimit, TrafficClass: o.tos, FlowLabel: at.flowLabel(),
		},
		MTU:            at.pathMTU(),
		PacketLifeTime: cm.DefaultPacketLifeTime,
	}
}

// prepare asks a fabric's administrator for the path to the peer. On another device it looks
// for a path through memory, and agrees on keys with the peer if the device encrypts. Each may take
// a while: the manager is not locked. It returns an error only if there has to be such a path, or keys.
func (id *ID) prepare() (*FabricPath, error) {
	id.m.lock()
	ready := id.state == cmid.AddrResolved && id.dev != nil
	var dev *adapter.Device
	var f Fabric
	if ready {
		dev, f = id.dev.dev, id.dev.fabric
	}
	gid, service, class := id.route.GID, mad.ServiceOf(id.space, id.remote.Port()), id.option.tos
	peer := udp(id.remote.Addr(), id.option.remoteUDP)
	id.m.unlock()
	switch {
	case !ready:
		return nil, nil
	case f != nil:
		return f.FindPath(gid, service, class)
	}
	if err := dev.Prepare(peer, 0); err != nil {
		return nil, err
	}
	return nil, dev.Introduce(peer, true)
}

// pathMTU returns the largest MTU that the device and the path support.
func (at *endpoint) pathMTU() int {
	mtu := at.dev.dev.MTU()
	if known := at.m.host.PathMTU(at.remote.Addr(), adapter.Overhead(at.dev.dev)); known != 0 {
		mtu = min(mtu, known)
	}
	if found := adapter.PathMTU(at.dev.dev, at.remote.Addr()); found != 0 {
		mtu = min(mtu, found)
	}
	return mtu
}

// flowLabel derives the flow label from the ports with Linux's formula, so that
// connections spread over the network's paths.
func (at *endpoint) flowLabel() uint32 {
	return (uint32(at.local.Port())*31 + uint32(at.remote.Port())) & 0xfffff
}

// push queues an event of the id.
func (id *ID) push(e Event) {
	e.ID = id
	id.ch.push(e)
}
