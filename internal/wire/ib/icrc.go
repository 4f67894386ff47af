package ib

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"

	"softrdma/internal/crc"
)

// The ICRC of RoCE v2 (annex A17.3.3, IBTA 7.8.1) covers the IP and UDP headers
// with the fields that routers change replaced by ones, then the BTH with its
// resv8a byte replaced by ones, then the rest of the packet. Eight bytes of
// ones stand where a native packet has its LRH.

const (
	ipv4Len    = 20
	maxIPv4Len = 60 // with options
	ipv6Len    = 40
	udpLen     = 8

	lastWord = 4 // UDP's length and checksum
)

// seed is the CRC after the eight bytes of ones.
var seed = crc32.ChecksumIEEE([]byte{255, 255, 255, 255, 255, 255, 255, 255})

// A PseudoHeader stands for the IP and UDP headers between two addresses as
// the ICRC sees them. Each direction of a flow has its own, which one goroutine at
// a time uses.
//
// It holds the CRC's register behind the headers but for the last four bytes,
// UDP's length and checksum, with lengths and identification zero: a CRC is linear, so
// that Join adds what these fields contribute from tables. Doing so is quicker than
// a CRC over the headers, and keeps them out of hash/crc32, which lets its
// argument escape to the heap. The last four bytes make sixteen of the BTH, which
// the processor takes at once.
type PseudoHeader struct {
	register uint32
	n        uint8 // length of both headers

	// The register with the lengths of the last packet, as most have the same, and the
	// last four bytes added to it.
	sized  uint32
	length int
}

// NewPseudoHeader returns the pseudo-header of packets from src to dst. The
// IPv4 header is that of an unfragmented packet without options which must not
// be fragmented (DF), as RoCE v2 wants (A17.3.1.1.5).
func NewPseudoHeader(src, dst netip.AddrPort) PseudoHeader {
	var b [ipv6Len + udpLen]byte
	n := ipv6Len
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	if s.Is4() && d.Is4() {
		n = ipv4Len
		b[0] = 0x45
		b[6] = 0x40 // DF
		b[9] = protocolUDP
		s4, d4 := s.As4(), d.As4()
		copy(b[12:], s4[:])
		copy(b[16:], d4[:])
	} else {
		b[0] = 0x60
		b[6] = protocolUDP
		s6, d6 := s.As16(), d.As16()
		copy(b[8:], s6[:])
		copy(b[24:], d6[:])
	}
	binary.BigEndian.PutUint16(b[n:], src.Port())
	binary.BigEndian.PutUint16(b[n+2:], dst.Port())
	mask(b[:n+udpLen])
	n += udpLen
	return PseudoHeader{register: ^crc32.Update(seed, crc32.IEEETable, b[:n-lastWord]), n: uint8(n), length: -1}
}

// mask sets the fields that routers change to ones (A17.3.3), in IP and UDP
// headers that are known to be whole.
func mask(b []byte) {
	if b[0]>>4 == 4 {
		b[1], b[8], b[10], b[11] = 0xff, 0xff, 0xff, 0xff // type of service, time to live, checksum
	} else {
		b[0] |= 0x0f                                    // traffic class and flow label
		b[1], b[2], b[3], b[7] = 0xff, 0xff, 0xff, 0xff // ... and hop limit
	}
	b[len(b)-2], b[len(b)-1] = 0xff, 0xff // UDP checksum
}

// IPv4 tells whether the header is IPv4's, whose identification field a UDP
// socket does not show to the receiver.
func (h *PseudoHeader) IPv4() bool { return h.n == ipv4Len+udpLen }

// Join returns the CRC over the pseudo-header of a packet with length bytes behind
// the UDP header (BTH to ICRC), over its BTH, and over what follows of it in body. The
// identification counts in IPv4 only. Continue with Extend over the rest, up to
// the ICRC. All three at once cost less than one after the other.
func (h *PseudoHeader) Join(length int, id uint16, bth, body []byte) uint32 {
	if length != h.length {
		h.resize(length)
	}
	r := h.sized
	if h.IPv4() {
		r ^= contribution(id, ipv4Len+udpLen-lastWord-4-2)
	}
	low := uint64(r) | uint64(binary.LittleEndian.Uint32(bth))<<32
	return crc.Behind(low, binary.LittleEndian.Uint64(bth[4:])|0xff, crc.IEEE, body) // resv8a is masked
}

// resize adds the lengths in both headers.
func (h *PseudoHeader) resize(length int) {
	udp := uint16(udpLen + length)
	h.length, h.sized = length, h.register^uint32(bits.ReverseBytes16(udp))^0xffff<<16
	if h.IPv4() {
		h.sized ^= contribution(ipv4Len+udp, ipv4Len+udpLen-lastWord-2-2)
	} else {
		h.sized ^= contribution(udp, ipv6Len+udpLen-lastWord-4-2)
	}
}

// distances is one more than the most bytes that stand behind a byte in what
// Join adds: behind the length of an IPv6 header.
const distances = ipv6Len + udpLen - lastWord - 4

// tail[k][b] is the CRC's register after byte b and k bytes of zero.
var tail = func() (t [distances][256]uint32) {
	for b := range 256 {
		r := crc32.IEEETable[b]
		for k := range distances {
			t[k][b] = r
			r = r>>8 ^ crc32.IEEETable[byte(r)]
		}
	}
	return t
}()

// contribution is what a 16-bit field with n bytes behind it adds.
func contribution(v uint16, n int) uint32 { return tail[n+1][v>>8] ^ tail[n][v&0xff] }

// Extend continues a CRC over more of the packet.
func Extend(sum uint32, b []byte) uint32 { return crc.Update(sum, crc.IEEE, b) }

// PutICRC writes the finished CRC as it stands on the wire.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// ICRC is the CRC that the packet's last four bytes hold.
func ICRC(packet []byte) uint32 { return binary.LittleEndian.Uint32(packet[len(packet)-ICRCLen:]) }

// Sum computes the ICRC of a packet given from BTH to ICRC (the last four
// bytes, not read). The packet has at least BTHLen+ICRCLen bytes.
func (h *PseudoHeader) Sum(id uint16, packet []byte) uint32 {
	return h.Join(len(packet), id, packet[:BTHLen], packet[BTHLen:len(packet)-ICRCLen])
}

// SumCaptured computes the ICRC of a packet, given from BTH to ICRC, under the
// IP and UDP headers that it was captured with: options, flags and
// identification count as they stand. It tells false where the headers are not
// those of IPv4 or IPv6 with UDP directly behind.
func SumCaptured(headers, packet []byte) (uint32, bool) {
	if len(headers) < ipv4Len+udpLen || len(packet) < BTHLen+ICRCLen {
		return 0, false
	}
	var b [maxIPv4Len + udpLen + BTHLen]byte
	n := len(headers)
	if n > maxIPv4Len+udpLen {
		return 0, false
	}
	copy(b[:], headers)
	v4 := b[0]>>4 == 4 && int(b[0]&15)*4+udpLen == n
	v6 := b[0]>>4 == 6 && n == ipv6Len+udpLen
	if !v4 && !v6 {
		return 0, false
	}
	mask(b[:n])
	copy(b[n:], packet[:BTHLen])
	b[n+4] = 0xff // resv8a
	crc := crc32.Update(seed, crc32.IEEETable, b[:n+BTHLen])
	return crc32.Update(crc, crc32.IEEETable, packet[BTHLen:len(packet)-ICRCLen]), true
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
// for some identification, and which one. A packet too short for a BTH and an
// ICRC has none.
func (c *Checker) Check(h *PseudoHeader, id uint16, packet []byte) (uint16, bool) {
	if len(packet) < BTHLen+ICRCLen {
		return 0, false
	}
	diff := h.Sum(id, packet) ^ ICRC(packet)
	if diff == 0 {
		return id, true
	}
	if !h.IPv4() {
		return 0, false
	}
	// The word of the header at bytes 4..7: identification, flags, fragment.
	behind := int(h.n) - 8 + len(packet) - ICRCLen
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
