package host

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// maxHeaders is what the longest headers of RoCE v2 take of an interface's
// MTU, counted as Linux's Soft RoCE counts them (RXE_MAX_HDR_LENGTH): both ends
// of a link must come to the same path MTU.
const maxHeaders = 80

// MTUFor is the largest path MTU (256 to 4096) that fits into an interface's
// MTU, 0 when none does.
func MTUFor(linkMTU int) int {
	for mtu := 4096; mtu >= 256; mtu >>= 1 {
		if linkMTU >= mtu+maxHeaders {
			return mtu
		}
	}
	return 0
}

// GUID is a device's identifier: EUI-64 of the interface's MAC address, as
// Soft RoCE makes it, or where there is none a hash of the address.
func GUID(i Interface, a netip.Addr) uint64 {
	if m := i.MAC; len(m) == 6 && !i.Loopback {
		return binary.BigEndian.Uint64([]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	}
	h := fnv.New64a()
	b := a.As16()
	h.Write(b[:])
	return h.Sum64()&^(1<<56) | 1<<57 // locally administered, of one device
}
