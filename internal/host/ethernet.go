package host

import (
	"encoding/binary"
	"net/netip"
)

// ResolveEthernet is Resolve for devices that need no IP address (RoCE v1). It also
// finds an interface without one, and the address that the MAC address gives: fe80::/64
// with its EUI-64, whether the interface has it or not.
func ResolveEthernet(name string) (Choice, error) {
	c, err := Resolve(name)
	if err == nil {
		return c, nil
	}
	list, listErr := Interfaces()
	if listErr != nil {
		return Choice{}, listErr
	}
	at, parseErr := parse(name)
	for _, i := range list {
		a, ok := linkLocal(i)
		if ok && (i.Name == name || parseErr == nil && at.Addr() == a) {
			return Choice{netip.AddrPortFrom(a, Port), i, []string{a.String() + " is made of the MAC address of " + i.Name + "."}}, nil
		}
	}
	return Choice{}, err
}

// linkLocal returns the link-local address of an interface's MAC address (RFC 4291
// appendix A).
func linkLocal(i Interface) (netip.Addr, bool) {
	if len(i.MAC) != 6 || i.Loopback {
		return netip.Addr{}, false
	}
	b := [16]byte{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(b[8:], SystemGUID(i, netip.Addr{}))
	return netip.AddrFrom16(b).WithZone(i.Name), true
}
