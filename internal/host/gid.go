package host

import (
	"net/netip"
	"slices"
)

// TypeRoCEv2 is the type of every GID here, spelled as Linux does in
// /sys/class/infiniband/*/ports/*/gid_attrs/types.
const TypeRoCEv2 = "RoCE v2"

// A GIDEntry is a row of a GID table.
type GIDEntry struct {
	GID  [16]byte
	Addr netip.Addr // the same as an address, IPv4 unmapped, without a zone
	Type string
}

// GIDTable lists the GIDs of an interface, as Linux builds a port's table: the
// link-local one first, then one per address. IPv4 addresses are mapped into
// IPv6 (A17.4.1.1).
func GIDTable(i Interface) []GIDEntry {
	addrs := slices.Clone(i.Addrs)
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return order(a) - order(b) })
	table := make([]GIDEntry, 0, len(addrs))
	for _, a := range addrs {
		a = a.WithZone("")
		table = append(table, GIDEntry{GID: a.As16(), Addr: a, Type: TypeRoCEv2})
	}
	return table
}

func order(a netip.Addr) int {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return 0
	}
	return 1
}
