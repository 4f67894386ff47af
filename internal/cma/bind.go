package cma

import (
	"fmt"
	"net/netip"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// errNoIPoIB: the port space of IP over InfiniBand wants a link layer that RoCE
// does not have.
var errNoIPoIB = reason.NotSupported("RDMA_PS_IPOIB wants an InfiniBand link, found Ethernet")

// Bind gives the id an address and a port. The unspecified address takes no
// device yet: a listener listens on all of them, and ResolveAddr chooses one.
// Port 0 draws an ephemeral one.
func (id *ID) Bind(local netip.AddrPort) error {
	id.m.lock()
	defer id.m.unlock()
	return id.bind(local, netip.AddrPort{})
}

// bind is Bind on the way to a peer, whose address makes ephemeral ports of the
// same number differ.
func (id *ID) bind(local, remote netip.AddrPort) error {
	if err := id.want("bind", cmid.Idle); err != nil {
		return err
	}
	local = unmap(local)
	if err := checkLocal(local.Addr()); err != nil {
		return fmt.Errorf("bind %v: %w", local, err)
	}
	if id.space == cmid.PortSpaceIPoIB {
		return fmt.Errorf("bind %v: %w", local, errNoIPoIB)
	}
	if err := id.checkProtocol(id.iwarp()); err != nil {
		return fmt.Errorf("bind %v: %w", local, err)
	}
	if !local.Addr().IsUnspecified() {
		if err := id.acquire(local.Addr()); err != nil {
			return fmt.Errorf("bind %v: %w", local, err)
		}
	}
	if !id.option.afOnlySet {
		// As Linux has it with net.ipv6.bindv6only = 0.
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

// unmap makes an IPv4 address in IPv6 clothes one of IPv4, so that addresses
// compare.
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

// acquire makes the device of a local address the id's.
func (id *ID) acquire(local netip.Addr) error {
	d, err := id.m.acquire(local, &id.option)
	if err != nil {
		return err
	}
	return id.own(d)
}

// own makes a device the id's, unless the device's protocol does not have the
// id's port space. The use that was counted passes to the id.
func (id *ID) own(d *device) error {
	if err := id.checkProtocol(d.dev.IWARP()); err != nil {
		d.release()
		return err
	}
	id.use(d)
	return nil
}
