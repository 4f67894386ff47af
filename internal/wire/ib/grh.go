package ib

import (
	"encoding/binary"
	"net/netip"
)

// GRHLen is the length of a global route header, and of the area in front of a received
// datagram that holds its network header (IBTA 8.3, annex A17.4.5.2).
const GRHLen = 40

// NextBTH is the next header of a GRH that is followed by a BTH (IBTA 8.3.5).
const NextBTH = 0x1b

const grhVersion = 6 // IBTA 8.3.1

// A GRH is a global route header (IBTA 8.3). It has the layout of an IPv6 header.
//
//	 0               1               2               3
//	+-------+---------------+---------------------------------------+
//	|IPVer  | traffic class |              flow label               |
//	+-------+---------------+-------+---------------+---------------+
//	|        payload length         |  next header  |   hop limit   |
//	+-------------------------------+---------------+---------------+
//	|                       source GID (16 bytes)                   |
//	+---------------------------------------------------------------+
//	|                     destination GID (16 bytes)                |
//	+---------------------------------------------------------------+
type GRH struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayLen       uint16 // bytes from behind the GRH to the end of the ICRC
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   [16]byte
}

// Put writes the header to b, which has at least GRHLen bytes.
func (h *GRH) Put(b []byte) {
	b = b[:GRHLen]
	binary.BigEndian.PutUint32(b, grhVersion<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], h.PayLen)
	b[6], b[7] = h.NextHeader, h.HopLimit
	copy(b[8:], h.SGID[:])
	copy(b[24:], h.DGID[:])
}

// Parse reads the header at the start of b and reports whether b holds one of
// version 6.
func (h *GRH) Parse(b []byte) bool {
	if len(b) < GRHLen || b[0]>>4 != grhVersion {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	h.TrafficClass, h.FlowLabel = uint8(w>>20), w&0xfffff
	h.PayLen = binary.BigEndian.Uint16(b[4:])
	h.NextHeader, h.HopLimit = b[6], b[7]
	h.SGID, h.DGID = [16]byte(b[8:]), [16]byte(b[24:])
	return true
}

// PutGRH writes the 40 bytes that precede a received datagram in its buffer:
// the IPv6 header, or twenty bytes of zero and the IPv4 header (annex
// A17.4.5.2). The packet's length is given from BTH to ICRC.
func PutGRH(b []byte, src, dst netip.Addr, tos, ttl uint8, id uint16, length int) {
	b = b[:GRHLen]
	if src.Unmap().Is4() && dst.Unmap().Is4() {
		clear(b[:GRHLen-ipv4Len])
		var h [ipv6Len]byte
		PutIP(h[:], src, dst, tos, ttl, id, udpLen+length)
		copy(b[GRHLen-ipv4Len:], h[:ipv4Len])
		return
	}
	PutIP(b, src, dst, tos, ttl, id, udpLen+length)
}
