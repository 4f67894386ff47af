package link

import "net/netip"

// wideHost is the length of the prefix that one host of IPv6 may have for itself (RFC 4291 2.5.4), so that it has as many
// addresses as it wants.
const wideHost = 64

// Displaced returns which of the peers of a listener that have said nothing makes room for another one: the first of the
// host that has most of them. One host cannot displace those of others. There is at least one peer.
func Displaced(waiting []netip.Addr) int {
	count := make(map[netip.Addr]int, len(waiting))
	most := 0
	for _, a := range waiting {
		a = hostOf(a)
		count[a]++
		most = max(most, count[a])
	}
	for i, a := range waiting {
		if count[hostOf(a)] == most {
			return i
		}
	}
	return 0
}

func hostOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		p, _ := a.WithZone("").Prefix(wideHost) // shorter than the address
		return p.Addr()
	}
	return a
}
