package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrNoRoute is wrapped when the host knows no way to a destination.
var ErrNoRoute = errors.New("no route to the destination")

// Source is the local address from which the host's routing reaches a
// destination. It connects a UDP socket, which sends nothing, because that
// works on every system and heeds every rule of routing.
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

// routeError says in words why a destination is not reached.
func routeError(dst netip.Addr, err error) error {
	why := "the system refuses it"
	switch {
	case errors.Is(err, syscall.ENETUNREACH):
		why = "no entry of the routing table leads there"
	case errors.Is(err, syscall.EHOSTUNREACH):
		why = "the routing table calls the host unreachable"
	case errors.Is(err, syscall.EACCES):
		why = "the routing table prohibits it, or it is a broadcast address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "no local address fits it"
	case errors.Is(err, syscall.EINVAL) && dst.Is6() && dst.IsLinkLocalUnicast() && dst.Zone() == "":
		why = "a link-local address wants its interface, as in " + dst.String() + "%eth0"
	}
	return fmt.Errorf("%w: %v: %s: %w", ErrNoRoute, dst, why, err)
}

// LocalAddresses lists the addresses of this machine that a device can be
// opened on: those of interfaces that are up and carry RoCE v2.
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

// IsLocal tells whether an address is one of this machine's, all of a loopback
// interface's among them.
func IsLocal(a netip.Addr) (bool, error) {
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

// AddressInUse tells whether err is that another socket has the address.
func AddressInUse(err error) bool {
	const wsaEADDRINUSE = syscall.Errno(10048) // Windows has a number of its own
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaEADDRINUSE)
}
