package mad

import "net/netip"

// A GID is a port's global identifier: in RoCE v2 its IPv6 address, or its IPv4
// address mapped into one (annex A17.4.1.1).
type GID [16]byte

// GIDFrom returns the GID of an address.
func GIDFrom(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// Addr returns the address that the GID stands for, as a plain IPv4 address where
// one is mapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String prints the address.
func (g GID) String() string { return g.Addr().String() }
