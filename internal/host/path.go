package host

import (
	"net"
	"net/netip"
)

// PathMTU is the largest path MTU (256 to 4096) of RoCE v2 that this machine
// knows to fit the way to a destination, or 0 where the system does not tell.
// It is bounded by the interface and the route that lead there and by what the
// system has learnt of the path. An address of this machine is reached through
// the loopback interface, but has the MTU of the interface that it belongs to,
// because a device on it has no larger one.
func PathMTU(dst netip.Addr) int {
	dst = dst.Unmap()
	if !dst.IsValid() || dst.IsUnspecified() {
		return 0
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, Port)))
	if err != nil {
		return 0
	}
	defer c.Close()
	return pathMTU(dst, c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), routeMTU(c, dst.Is4()), Interfaces)
}

// pathMTU is PathMTU of a route with a source address and an MTU, 0 if unknown.
func pathMTU(dst, src netip.Addr, route int, list func() ([]Interface, error)) int {
	if src == dst && !dst.IsLoopback() { // the source of a route to an own address is that address
		ifs, err := list()
		if err != nil {
			return MTUFor(route)
		}
		for _, i := range ifs {
			for _, a := range i.Addrs {
				if a == dst && (route == 0 || i.MTU < route) {
					route = i.MTU
				}
			}
		}
	}
	return MTUFor(route)
}
