package relay

import "encoding/binary"

const (
	ethernetLen = 14
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd

	ecnMask    = 3
	notCapable = 0
	congested  = 3
)

// mark sets the ECN field of an IP packet in an Ethernet frame to CE if the packet is
// ECN-capable, and reports whether it is (RFC 3168, 5).
func mark(frame []byte) bool {
	if len(frame) < ethernetLen+2 {
		return false
	}
	ip := frame[ethernetLen:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		if len(ip) < 20 || ip[1]&ecnMask == notCapable {
			return false
		}
		old := binary.BigEndian.Uint16(ip)
		ip[1] |= congested
		// RFC 1624, 3: HC' = ~(~HC + ~m + m').
		sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(^old) + uint32(binary.BigEndian.Uint16(ip))
		sum = sum&0xffff + sum>>16
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
		return true
	case etherIPv6: // the traffic class spans the first two bytes
		if len(ip) < 40 || ip[1]>>4&ecnMask == notCapable {
			return false
		}
		ip[1] |= congested << 4
		return true
	}
	return false
}
