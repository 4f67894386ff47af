package cma

import (
	"fmt"
	"net/netip"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// The port space of IP over InfiniBand needs a link layer that RoCE does not have. Its Q_Key is
// that of the port's partition, so ids have a device before they listen.
var (
	errNoIPoIB       = reason.NotSupported("RDMA_PS_IPOIB wants an InfiniBand link, found Ethernet")
	errIPoIBWildcard = reason.NotSupported("RDMA_PS_IPOIB listens at the address of a port, found the unspecified address")
)

// Bind sets the id's local address and port. With the unspecified address the id
// has no device yet: a listener listens on all devices, and ResolveAddr chooses
// one. Port 0 means an ephemeral port.
func (id *ID) Bind(local netip.AddrPort) error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.bind(local, netip.AddrPort{}); err != nil || id.space != cmid.PortSpaceIPoIB || id.dev == nil {
		return err
	}
	if err := id.datagram.findQKey("bind", cmid.AddrBound); err != nil {
		if id.state == cmid.AddrBound {
			id.unbind()
		}
		return fmt.Errorf("bind %v: %w", local, err)
	}
	return nil
}

// unbind ends bind.
func (id *ID) unbind() {
	id.m.dropPort(id)
	id.local, id.remote = netip.AddrPort{}, netip.AddrPort{}
	id.leave()
	id.state = cmid.Idle
}

// bind is Bind for an id that will reach a peer. Ids with different peers can share
// an ephemeral port.
func (id *ID) bind(local, remote netip.AddrPort) error {
	if err := id.want("bind", cmid.Idle); err != nil {
		return err
	}
	local = unmap(local)
	if err := checkLocal(local.Addr()); err != nil {
		return fmt.Errorf("bind %v: %w", local, err)
	}
	if err := id.checkProtocol(id.iwarp()); err != nil {
		return fmt.Errorf("bind %v: %w", local, err)
	}
	if !local.Addr().IsUnspecified() {
		d, err := id.m.acquire(local.Addr(), &id.option)
		if err == nil {
			err = id.own(d)
		}
		if err != nil {
			return fmt.Errorf("bind %v: %w", local, err)
		}
		local = netip.AddrPortFrom(id.dev.addr(), local.Port()) // the device's zone may be named otherwise
	}
	if !id.option.afOnlySet {
		// Linux does the same if net.ipv6.bindv6only is 0.
		id.option.afOnly = local.Addr().Is4()
	}
	id.local, id.remote = local, remote
	if err := id.m.takePort(id); err != nil {
		id.local, id.remote = netip.AddrPort{}, netip.AddrPort{}
		id.leave()
		return fmt.Errorf("bind: %w", err)
	}
	id.state = cmid.AddrBound
	return nil
}

// unmap returns an IPv4-mapped IPv6 address as IPv4, so that addresses can be
// compared.
func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func checkLocal(a netip.Addr) error {
	switch {
	case !a.IsValid():
		return reason.BadArgument(0, 0, "expected an IP address, found none")
	case a.IsMulticast():
		return reason.BadArgument(0, 0, "expected an address of this host, found a multicast group")
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		return reason.BadArgument(0, 0, "expected a link-local address with a zone (fe80::1%%eth0), found none")
	}
	return nil
}

// own gives the id a device, unless the device's protocol does not support the id's
// port space. The id takes over the use that the caller counted.
func (id *ID) own(d *device) error {
	err := id.checkProtocol(d.dev.IWARP())
	if err == nil && id.space == cmid.PortSpaceIPoIB && d.fabric == nil {
		err = errNoIPoIB
	}
	if err != nil {
		d.release()
		return err
	}
	id.use(d)
	return nil
}
