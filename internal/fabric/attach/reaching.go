package attach

import "net/netip"

// Reaching returns the first of some devices that is at a port of an Ethernet whose fabric has a host with
// an IP address, and that has an address of the same family. port returns nil for other devices. This
// host's routes do not lead to the hosts of a fabric. A fabric is asked once for an address that it has, and
// once in a second for another one.
func Reaching[D any](devices []D, port func(D) *Port, ip netip.Addr) (d D, found bool) {
	ip = ip.Unmap()
	for _, d := range devices {
		p := port(d)
		if p == nil {
			continue
		}
		if own := p.Info().Addrs; len(own) > 0 && own[0].Is4() == ip.Is4() && p.reaches(ip) {
			return d, true
		}
	}
	return d, false
}
