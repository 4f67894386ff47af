package host

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// interfaces lists the interfaces by netlink, which also reports their operational
// state.
func interfaces() ([]Interface, error) {
	links, err := netlink.LinkList()
	if err != nil { // a sandbox may forbid netlink
		if list, err := byIoctl(); err == nil {
			return list, nil
		}
		return portable()
	}
	var list []Interface
	for _, l := range links {
		a := l.Attrs()
		i := Interface{
			Name: a.Name, Index: a.Index, MAC: a.HardwareAddr, MTU: a.MTU, Loopback: a.Flags&net.FlagLoopback != 0,
			Up:        running(a),
			SpeedMbps: speed(a.Name),
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", a.Name, err)
		}
		for _, x := range addrs {
			if ip, ok := netip.AddrFromSlice(x.IP); ok && !ip.IsMulticast() {
				i.Addrs = append(i.Addrs, withZone(ip, a.Name))
			}
		}
		list = append(list, i)
	}
	return list, nil
}

// speed returns the speed that the driver reports, or 0. Virtual links report none or
// -1.
func speed(name string) int {
	b, err := os.ReadFile(filepath.Join("/sys/class/net", name, "speed"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// defaultRoutes returns the interface indices of the default routes, the preferred one
// first.
func defaultRoutes() []int {
	var list []int
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteList(nil, family)
		if err != nil {
			continue
		}
		for best := 0; best >= 0; {
			best = -1
			for i, r := range routes {
				isDefault := r.Dst == nil || r.Dst.IP.IsUnspecified() && strings.HasSuffix(r.Dst.String(), "/0")
				if isDefault && r.LinkIndex > 0 && (best < 0 || r.Priority < routes[best].Priority) {
					best = i
				}
			}
			if best >= 0 {
				list = append(list, routes[best].LinkIndex)
				routes = append(routes[:best], routes[best+1:]...)
			}
		}
	}
	return list
}
