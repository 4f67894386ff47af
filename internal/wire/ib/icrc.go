package ib

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// The ICRC of RoCE v2 (annex A17.3.3, IBTA 7.8.1) covers the IP and UDP headers
// with the fields that routers change replaced by ones, then the BTH with its
// resv8a byte replaced by ones, then the rest of the packet. Eight bytes of
// ones stand where a native packet has its LRH.

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
)

// seed is the CRC after the eight bytes of ones.
var seed = crc32.ChecksumIEEE([]byte{255, 255, 255, 255, 255, 255, 255, 255})

// A PseudoHeader holds the IP and UDP headers between two addresses as the
// ICRC sees them. It is a value; each direction of a flow has its own.
type PseudoHeader struct {
	b [ipv6Len + udpLen]byte
	n int
}

// NewPseudoHeader returns the pseudo-header of packets from src to dst. The
// IPv4 header is that of an unfragmented packet without options which must not
// be fragmented (DF), as RoCE v2 wants (A17.4.3).
func NewPseudoHeader(src, dst netip.AddrPort) (h PseudoHeader) {
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	if s.Is4() {
		h.n = ipv4Len + udpLen
		h.b[0] = 0x45
		h.b[1] = 0xff                 // type of service: masked
		h.b[6] = 0x40                 // DF
		h.b[8] = 0xff                 // time to live: masked
		h.b[9] = 17                   // UDP
		h.b[10], h.b[11] = 0xff, 0xff // checksum: masked
		s4, d4 := s.As4(), d.As4()
		copy(h.b[12:], s4[:])
		copy(h.b[16:], d4[:])
	} else {
		h.n = ipv6Len + udpLen
		// Version stays; traffic class and flow label are masked.
		h.b[0], h.b[1], h.b[2], h.b[3] = 0x6f, 0xff, 0xff, 0xff
		h.b[6] = 17   // UDP
		h.b[7] = 0xff // hop limit: masked
		s6, d6 := s.As16(), d.As16()
		copy(h.b[8:], s6[:])
		copy(h.b[24:], d6[:])
	}
	u := h.b[h.n-udpLen : h.n]
	binary.BigEndian.PutUint16(u, src.Port())
	binary.BigEndian.PutUint16(u[2:], dst.Port())
	u[6], u[7] = 0xff, 0xff // checksum: masked
	return h
}

// IPv4 tells whether the header is IPv4's, whose identification field a UDP
// socket does not show to the receiver.
func (h *PseudoHeader) IPv4() bool { return h.n == ipv4Len+udpLen }

// Begin returns the CRC over the pseudo-header of a packet with length bytes
// behind the UDP header (BTH to ICRC) and over its transport headers, which
// start with the BTH. The identification counts in IPv4 only. Continue with
// Extend over payload and padding.
func (h *PseudoHeader) Begin(length int, id uint16, headers []byte) uint32 {
	var b [ipv6Len + udpLen + BTHLen]byte
	copy(b[:], h.b[:h.n])
	if h.IPv4() {
		binary.BigEndian.PutUint16(b[2:], uint16(ipv4Len+udpLen+length))
		binary.BigEndian.PutUint16(b[4:], id)
	} else {
		binary.BigEndian.PutUint16(b[4:], uint16(udpLen+length))
	}
	binary.BigEndian.PutUint16(b[h.n-4:], uint16(udpLen+length))
	copy(b[h.n:], headers[:BTHLen])
	b[h.n+4] = 0xff // resv8a: masked
	crc := crc32.Update(seed, crc32.IEEETable, b[:h.n+BTHLen])
	return crc32.Update(crc, crc32.IEEETable, headers[BTHLen:])
}

// Extend continues a CRC over more of the packet.
func Extend(crc uint32, b []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, b) }

// PutICRC writes the finished CRC as it stands on the wire.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// ICRC is the CRC that the packet's last four bytes hold.
func ICRC(packet []byte) uint32 { return binary.LittleEndian.Uint32(packet[len(packet)-ICRCLen:]) }

// Sum computes the ICRC of a packet given from BTH to ICRC (the last four
// bytes, not read). The packet has at least BTHLen+ICRCLen bytes.
func (h *PseudoHeader) Sum(id uint16, packet []byte) uint32 {
	return h.Begin(len(packet), id, packet[:len(packet)-ICRCLen])
}

// A Checker checks the ICRC of received packets. The zero value is ready. It
// remembers the last packet length and so belongs to one goroutine at a time.
//
// A UDP socket hides the IPv4 identification, 16 bits that the ICRC covers.
// Where the expected identification does not give the packet's ICRC, the
// Checker solves for it: a CRC is linear, so the difference between the ICRC
// found and the one computed, run backwards over the bytes behind the field,
// must be zero outside these 16 bits. The sixteen other bits still detect a
// corrupted packet, all 32 do when the identification is as expected, and on
// IPv6 always.
type Checker struct {
	behind  int    // bytes behind the identification's word for which inverse holds
	inverse uint32 // x^-(32+8*behind)
}

// Check tells whether the packet, given from BTH to ICRC, has the right ICRC
// for some identification, and which one.
func (c *Checker) Check(h *PseudoHeader, id uint16, packet []byte) (uint16, bool) {
	diff := h.Sum(id, packet) ^ ICRC(packet)
	if diff == 0 {
		return id, true
	}
	if !h.IPv4() {
		return 0, false
	}
	// The word of the header at bytes 4..7: identification, flags, fragment.
	behind := h.n - 8 + len(packet) - ICRCLen
	if c.behind != behind {
		c.behind, c.inverse = behind, inversePower(32+8*behind)
	}
	w := multiply(diff, c.inverse)
	if w&0xffff0000 != 0 {
		return 0, false
	}
	return id ^ (uint16(w)<<8 | uint16(w)>>8), true
}

// Polynomials modulo that of CRC-32, least significant bit first as in the
// checksum: bit 31 is x^0.
const (
	polynomial = 0xedb88320
	one        = 1 << 31
)

func multiply(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ polynomial
		} else {
			b >>= 1
		}
	}
	return p
}

// inversePower is x^-n: the polynomial is primitive, so x has order 2^32-1.
func inversePower(n int) uint32 {
	e := uint32(1<<32 - 1 - n)
	p, x := uint32(one), uint32(one>>1)
	for ; e != 0; e >>= 1 {
		if e&1 != 0 {
			p = multiply(p, x)
		}
		x = multiply(x, x)
	}
	return p
}
