package mad

import (
	"encoding/binary"
	"net/netip"
)

// IPHeaderLen is the number of bytes that the IP CM service uses of the private data of
// a REQ or SIDR_REQ.
const IPHeaderLen = 36

// An IPHeader precedes the private data of REQ and SIDR_REQ of the
// IP CM service (IBTA annex A11.3.2). IPv4 addresses lie in the last four bytes
// of their fields.
//
//	 0 | MajV  | MinV  | IPV   | Resv  |          Source Port          |
//	 4 |      Source IP Address (16 bytes)                             |
//	20 |      Destination IP Address (16 bytes)                        |
type IPHeader struct {
	Version   uint8 // major in the upper four bits: 0
	IPVersion uint8 // 4 or 6, as found
	Port      uint16
	Src, Dst  netip.Addr // the zero Addr if IPVersion is neither 4 nor 6
}

// NewIPHeader returns the header for a connection from one address to another.
func NewIPHeader(src netip.AddrPort, dst netip.Addr) IPHeader {
	h := IPHeader{IPVersion: 6, Port: src.Port(), Src: src.Addr().Unmap().WithZone(""), Dst: dst.Unmap().WithZone("")}
	if h.Src.Is4() {
		h.IPVersion = 4
	}
	return h
}

// Parse reads the header from the start of the private data. It reports whether
// b is long enough and version and addresses are as the annex defines.
func (h *IPHeader) Parse(b []byte) bool {
	*h = IPHeader{}
	if len(b) < IPHeaderLen {
		return false
	}
	h.Version, h.IPVersion = b[0], b[1]>>4
	h.Port = binary.BigEndian.Uint16(b[2:])
	switch h.IPVersion {
	case 4:
		h.Src, h.Dst = netip.AddrFrom4([4]byte(b[16:20])), netip.AddrFrom4([4]byte(b[32:36]))
	case 6:
		h.Src, h.Dst = netip.AddrFrom16([16]byte(b[4:20])), netip.AddrFrom16([16]byte(b[20:36]))
	default:
		return false
	}
	return h.Version>>4 == 0
}

// Put writes the header to the start of b, which must have room for it. An
// address of the other family than IPVersion says is left zero.
func (h *IPHeader) Put(b []byte) {
	b = b[:IPHeaderLen]
	clear(b)
	b[0], b[1] = h.Version, h.IPVersion<<4
	binary.BigEndian.PutUint16(b[2:], h.Port)
	putIP(b[4:20], h.Src, h.IPVersion)
	putIP(b[20:36], h.Dst, h.IPVersion)
}

func putIP(b []byte, a netip.Addr, version uint8) {
	switch {
	case version == 4 && a.Is4():
		v := a.As4()
		copy(b[12:], v[:])
	case version == 6 && a.Is6():
		v := a.As16()
		copy(b, v[:])
	}
}
