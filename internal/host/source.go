package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrNoRoute is wrapped when the host has no route to a destination.
var ErrNoRoute = errors.New("no route to the destination")

// Source returns the local address that the host uses to send to a destination. It
// connects a UDP socket, which sends nothing, works on every system and follows all
// routing rules.
func Source(dst netip.Addr) (netip.Addr, error) {
	dst = dst.Unmap()
	if !dst.IsValid() || dst.IsUnspecified() {
		return netip.Addr{}, fmt.Errorf("%w: expected an address, found %v", ErrNoRoute, dst)
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, Port)))
	if err != nil {
		return netip.Addr{}, routeError(dst, err)
	}
	defer c.Close()
	src := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if !src.IsValid() || src.IsUnspecified() {
		return netip.Addr{}, fmt.Errorf("%w: %v: the system chose no source address", ErrNoRoute, dst)
	}
	return src, nil
}

// routeError explains why a destination is not reachable.
func routeError(dst netip.Addr, err error) error {
	why := "the system refuses it"
	switch {
	case errors.Is(err, syscall.ENETUNREACH):
		why = "the routing table has no matching entry"
	case errors.Is(err, syscall.EHOSTUNREACH):
		why = "the routing table has an unreachable entry for it"
	case errors.Is(err, syscall.EACCES):
		why = "the routing table prohibits it, or it is a broadcast address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "no suitable local address"
	case errors.Is(err, syscall.EINVAL) && dst.Is6() && dst.IsLinkLocalUnicast() && dst.Zone() == "":
		why = "a link-local address needs its interface, as in " + dst.String() + "%eth0"
	}
	return fmt.Errorf("%w: %v: %s: %w", ErrNoRoute, dst, why, err)
}

// LocalAddresses returns the addresses of this machine on which a device can be opened:
// those of interfaces that are up and whose MTU is large enough.
func LocalAddresses() ([]netip.Addr, error) {
	list, err := Interfaces()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, i := range list {
		if i.Up && MTUFor(i.MTU) > 0 {
			addrs = append(addrs, i.Addrs...)
		}
	}
	return addrs, nil
}

// IsLocal reports whether an address belongs to this machine. All of 127.0.0.0/8 does.
func IsLocal(a netip.Addr) (bool, error) {
	a = NamedZone(a)
	list, err := Interfaces()
	if err != nil {
		return false, err
	}
	for _, i := range list {
		for _, b := range i.Addrs {
			if b == a {
				return true, nil
			}
		}
		if local(i, a) {
			return true, nil
		}
	}
	return false, nil
}

// AddressInUse reports whether err means that another socket uses the address.
func AddressInUse(err error) bool {
	const wsaEADDRINUSE = syscall.Errno(10048) // Windows has its own number
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaEADDRINUSE)
}
