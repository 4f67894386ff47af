package ib

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

const (
	ipv4Len    = 20
	maxIPv4Len = 60 // with options
	ipv6Len    = 40
	udpLen     = 8

	// ones is the length of what stands for the LRH in front of IP headers.
	ones = 8
)

// NewPseudoHeader returns the ICRC's prefix of RoCE v2 packets from src to dst. The
// IPv4 header is that of an unfragmented packet without options which must not
// be fragmented (DF), as RoCE v2 wants (A17.3.1.1.5).
func NewPseudoHeader(src, dst netip.AddrPort) Prefix {
	var b [ones + ipv6Len + udpLen]byte
	for i := range b[:ones] {
		b[i] = 0xff
	}
	h := b[ones:]
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	n, id := ipv6Len, -1
	length := Length{At: ones + 4, Add: udpLen}
	if s.Is4() && d.Is4() {
		n, id = ipv4Len, ones+4
		length = Length{At: ones + 2, Add: ipv4Len + udpLen}
		h[0] = 0x45
		h[6] = 0x40 // DF
		h[9] = protocolUDP
		s4, d4 := s.As4(), d.As4()
		copy(h[12:], s4[:])
		copy(h[16:], d4[:])
	} else {
		h[0] = 0x60
		h[6] = protocolUDP
		s6, d6 := s.As16(), d.As16()
		copy(h[8:], s6[:])
		copy(h[24:], d6[:])
	}
	binary.BigEndian.PutUint16(h[n:], src.Port())
	binary.BigEndian.PutUint16(h[n+2:], dst.Port())
	n += udpLen
	mask(h[:n])
	return NewPrefix(b[:ones+n], id, length, Length{At: ones + n - 4, Add: udpLen})
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

// SumCaptured computes the ICRC of a packet, given from BTH to ICRC, under the
// IP and UDP headers that it was captured with: options, flags and
// identification count as they stand. It reports false if the headers are not
// those of IPv4 or IPv6 with UDP directly behind.
func SumCaptured(headers, packet []byte) (uint32, bool) {
	n := len(headers)
	if n < ipv4Len+udpLen || n > maxIPv4Len+udpLen || len(packet) < BTHLen+ICRCLen {
		return 0, false
	}
	var b [ones + maxIPv4Len + udpLen + BTHLen]byte
	for i := range b[:ones] {
		b[i] = 0xff
	}
	h := b[ones:]
	copy(h, headers)
	v4 := h[0]>>4 == 4 && int(h[0]&15)*4+udpLen == n
	v6 := h[0]>>4 == 6 && n == ipv6Len+udpLen
	if !v4 && !v6 {
		return 0, false
	}
	mask(h[:n])
	copy(h[n:], packet[:BTHLen])
	h[n+4] = 0xff // resv8a
	crc := crc32.ChecksumIEEE(b[:ones+n+BTHLen])
	return crc32.Update(crc, crc32.IEEETable, packet[BTHLen:len(packet)-ICRCLen]), true
}
