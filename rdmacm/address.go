package rdmacm

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"softrdma/internal/reason"
)

// lookup resolves "host:port". IPv4 comes before IPv6, because a name with both is
// usually that of an IPv4 network. The port may be the name of a service.
func lookup(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("expected host:port: %w", err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", p)
	if err != nil {
		return nil, err
	}
	if h == "" {
		return []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))}, nil
	}
	if a, err := netip.ParseAddr(h); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(port))}, nil
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", h)
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, a := range list {
		all = append(all, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	slices.SortStableFunc(all, func(a, b netip.AddrPort) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return all, nil
}

// destinations is lookup for a client. An unspecified address means this machine,
// as in package net.
func destinations(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	list, err := lookup(ctx, addr)
	if err != nil {
		return nil, resolveError(addr, err)
	}
	for i, a := range list {
		switch {
		case a.Port() == 0:
			return nil, resolveError(addr, reason.BadArgument(math.MaxUint16, 0, "port: expected 1 to 65535, found 0"))
		case a.Addr().IsUnspecified() && a.Addr().Is6() && addr[0] == '[':
			list[i] = netip.AddrPortFrom(netip.IPv6Loopback(), a.Port())
		case a.Addr().IsUnspecified():
			list[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
		}
	}
	return list, nil
}
