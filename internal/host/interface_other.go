//go:build !linux

package host

import (
	"net"
	"net/netip"
)

func interfaces() ([]Interface, error) { return portable() }

// defaultRoutes returns the interfaces that routes to outside addresses use. It finds
// them by connecting UDP sockets, which sends nothing.
func defaultRoutes() []int {
	var list []int
	for _, outside := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		c, err := net.Dial("udp", outside)
		if err != nil {
			continue
		}
		local := netip.MustParseAddrPort(c.LocalAddr().String()).Addr()
		_ = c.Close()
		ifs, err := portable()
		if err != nil {
			return list
		}
		for _, i := range ifs {
			for _, a := range i.Addrs {
				if a == local {
					list = append(list, i.Index)
				}
			}
		}
	}
	return list
}
