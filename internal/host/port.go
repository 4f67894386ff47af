package host

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// LeastMTU is the smallest interface MTU for RoCE v2.
const LeastMTU = 256 + maxHeaders

// maxHeaders is the maximum length of RoCE v2 headers. It is the value of Linux's Soft
// RoCE (RXE_MAX_HDR_LENGTH), so that both compute the same path MTU.
const maxHeaders = 80

// MTUFor returns the largest path MTU (256 to 4096) that fits into an interface's MTU,
// or 0 if none does.
func MTUFor(linkMTU int) int {
	for mtu := 4096; mtu >= 256; mtu >>= 1 {
		if linkMTU >= mtu+maxHeaders {
			return mtu
		}
	}
	return 0
}

// GUID returns a device's identifier. Two devices on one interface have different
// ones, which survive a restart: the manufacturer's part of the interface's MAC
// address with the bit of locally administered identifiers, and 40 bits of a hash
// of the whole MAC address and the device's address. Without a MAC address the whole
// GUID returns a hash.
func GUID(i Interface, a netip.Addr) uint64 {
	const local, group = 1 << 57, 1 << 56 // bits 0x02 and 0x01 of the first byte
	h := fnv.New64a()
	b := a.As16()
	m := i.MAC
	if len(m) != 6 || i.Loopback {
		h.Write(b[:])
		return h.Sum64()&^group | local
	}
	h.Write(m)
	h.Write(b[:])
	oui := uint64(m[0])<<56 | uint64(m[1])<<48 | uint64(m[2])<<40
	return oui&^group | local | h.Sum64()&(1<<40-1)
}

// SystemGUID returns the identifier that the devices of one interface share: the
// EUI-64 of its MAC address, as with Soft RoCE, or the device's GUID if there is no
// MAC address.
func SystemGUID(i Interface, a netip.Addr) uint64 {
	if m := i.MAC; len(m) == 6 && !i.Loopback {
		return binary.BigEndian.Uint64([]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	}
	return GUID(i, a)
}
