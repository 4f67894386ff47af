package ib

import (
	"encoding/binary"
	"net/netip"
)

const protocolUDP = 17

// PutIP writes the IP header of a RoCE v2 packet between two addresses with
// length bytes behind the IP header, and returns the header's own length. The
// identification counts in IPv4 only. b has at least GRHLen bytes.
//
//	IPv4: version 4, no options, DF, checksum (annex A17.3.1.1)
//	IPv6: version 6, next header UDP, flow label 0
func PutIP(b []byte, src, dst netip.Addr, tos, ttl uint8, id uint16, length int) int {
	src, dst = src.Unmap(), dst.Unmap()
	if src.Is4() && dst.Is4() {
		h := b[:ipv4Len]
		clear(h)
		h[0], h[1] = 0x45, tos
		binary.BigEndian.PutUint16(h[2:], uint16(ipv4Len+length))
		binary.BigEndian.PutUint16(h[4:], id)
		h[6] = 0x40 // DF
		h[8], h[9] = ttl, protocolUDP
		s, d := src.As4(), dst.As4()
		copy(h[12:], s[:])
		copy(h[16:], d[:])
		binary.BigEndian.PutUint16(h[10:], ^fold(sum16(0, h)))
		return ipv4Len
	}
	h := b[:ipv6Len]
	clear(h)
	binary.BigEndian.PutUint32(h, 6<<28|uint32(tos)<<20)
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	h[6], h[7] = protocolUDP, ttl
	s, d := src.As16(), dst.As16()
	copy(h[8:], s[:])
	copy(h[24:], d[:])
	return ipv6Len
}

// PutUDP writes a UDP header before length bytes of data; a checksum of 0 says
// that there is none.
func PutUDP(b []byte, src, dst uint16, length int, checksum uint16) int {
	b = b[:udpLen]
	binary.BigEndian.PutUint16(b, src)
	binary.BigEndian.PutUint16(b[2:], dst)
	binary.BigEndian.PutUint16(b[4:], uint16(udpLen+length))
	binary.BigEndian.PutUint16(b[6:], checksum)
	return udpLen
}

// sum16 adds b to a running Internet checksum (RFC 1071). Every call but the
// last has an even number of bytes.
func sum16(sum uint32, b []byte) uint32 {
	wide := uint64(sum)
	for ; len(b) >= 8; b = b[8:] { // RFC 1071 2(C): in words of any size that are folded at the end
		v := binary.BigEndian.Uint64(b)
		wide += v>>32 + v&0xffffffff
	}
	for wide>>16 != 0 {
		wide = wide&0xffff + wide>>16
	}
	sum = uint32(wide)
	for len(b) >= 2 {
		sum += uint32(b[0])<<8 | uint32(b[1])
		sum = sum&0xffff + sum>>16
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// Checksum computes the checksum of a UDP datagram, or of a message of another
// protocol above IP with a pseudo header, given as its header with the checksum field
// zero followed by its data in one slice, between two addresses. IPv6 does not work
// without one (RFC 8200, 8.1).
func Checksum(protocol uint8, src, dst netip.Addr, message []byte) uint16 {
	var sum uint32
	s, d := src.Unmap(), dst.Unmap()
	if s.Is4() && d.Is4() {
		s4, d4 := s.As4(), d.As4()
		sum = sum16(sum16(0, s4[:]), d4[:])
	} else {
		s16, d16 := s.As16(), d.As16()
		sum = sum16(sum16(0, s16[:]), d16[:])
	}
	sum += uint32(protocol) + uint32(len(message))
	if c := ^fold(sum16(sum, message)); c != 0 {
		return c
	}
	return 0xffff // RFC 768: zero says that there is none
}
