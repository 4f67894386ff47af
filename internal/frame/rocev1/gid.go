package rocev1

import (
	"net/netip"

	"softrdma/internal/wire/ethernet"
)

// LinkLocalGID returns the GID of an interface without an IP address: fe80::/64 with
// the modified EUI-64 of its MAC address (annex A16, RFC 4291 appendix A).
func LinkLocalGID(m ethernet.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// EUI64MAC returns the MAC address that a link-local GID was made of, and reports
// whether it was made of one.
func EUI64MAC(gid netip.Addr) (ethernet.MAC, bool) {
	b := gid.As16()
	if !gid.Is6() || [8]byte(b[:]) != [8]byte{0: 0xfe, 1: 0x80} || b[11] != 0xff || b[12] != 0xfe {
		return ethernet.MAC{}, false
	}
	return ethernet.MAC{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}, true
}

// MulticastMAC returns the MAC address that frames to a multicast GID go to. It reports
// whether the GID is a group's.
func MulticastMAC(gid netip.Addr) (ethernet.MAC, bool) {
	gid = gid.Unmap()
	if !gid.IsMulticast() {
		return ethernet.MAC{}, false
	}
	return ethernet.GroupMAC(gid), true
}
