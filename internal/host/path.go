package host

import (
	"net"
	"net/netip"
)

// PathMTU returns the largest path MTU (256 to 4096) of RoCE v2 that fits the path to a
// destination, or 0 if it is unknown. The packets are overhead bytes longer than those of
// RoCE v2. The path MTU is limited by the route, its interface and the path MTU that the
// system has discovered. A destination on this machine is limited by the MTU of its own
// interface and not of the loopback interface, because a device on the interface has no
// larger one.
func PathMTU(dst netip.Addr, overhead int) int {
	dst = dst.Unmap()
	if !dst.IsValid() || dst.IsUnspecified() {
		return 0
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, Port)))
	if err != nil {
		return 0
	}
	defer c.Close()
	return pathMTU(dst, c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), routeMTU(c, dst.Is4()), overhead, Interfaces)
}

// pathMTU is PathMTU for a route with a source address and an MTU, which is 0 if
// unknown.
func pathMTU(dst, src netip.Addr, route, overhead int, list func() ([]Interface, error)) int {
	if src == dst && !dst.IsLoopback() { // a route to an address of this machine has the same source
		ifs, err := list()
		if err != nil {
			return MTUFor(route - overhead)
		}
		for _, i := range ifs {
			for _, a := range i.Addrs {
				if a == dst && (route == 0 || i.MTU < route) {
					route = i.MTU
				}
			}
		}
	}
	return MTUFor(route - overhead)
}
