package live

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// Fields of ARP for IPv4 over Ethernet (RFC 826).
const (
	arpLen     = 28
	arpHead    = 0x0001_0800_06_04 // hardware and protocol, and the lengths of their addresses
	arpRequest = 1
	arpReply   = 2
)

// Fields of neighbor discovery (RFC 4861 4.3, 4.4, 4.6.1).
const (
	hopByHop       = 0
	protocolICMPv6 = 58
	solicitation   = 135
	advertisement  = 136
	discoveryHops  = 255
	discoveryLen   = 24   // of a message without options
	linkOptionLen  = 8    // the target's link-layer address
	solicited      = 0x40 // flag
	override       = 0x20 // the same
)

// answerNeighbor answers a host's request for the MAC address of another host of the fabric with that of
// its switch, which routes: ARP (RFC 1027) and neighbor discovery (RFC 4389). It reports whether the frame
// was such a request. They cross no switch.
func (n *ethernetNetwork) answerNeighbor(a *attachment, f *dcb.Frame) bool {
	var h ethernet.Header
	at := h.Parse(f.Data)
	b := f.Data[at:]
	var target netip.Addr
	var reply []byte
	gateway := n.lan.Gateway(a.at.Node).MAC()
	switch {
	case h.Type == ethernet.TypeARP:
		if len(b) >= arpLen && binary.BigEndian.Uint64(b) == arpHead<<16|arpRequest {
			target, reply = arpAnswer(b, gateway)
		}
	case h.Type == ethernet.TypeIPv6 && len(b) >= ipv6Len+discoveryLen && b[6] == protocolICMPv6 && b[ipv6Len] == solicitation:
		if b[7] == discoveryHops {
			target, reply = discoveryAnswer(b, gateway)
		}
	case h.Type == ethernet.TypeIPv6 && len(b) >= ipv6Len && b[6] == hopByHop && f.Dst.Group(): // reports of MLD, which nothing here reads
		return true
	default:
		return false
	}
	if node, ok := n.hosts[target]; ok && node == a.at.Node || !ok && !n.reaches(target) {
		return true
	}
	frame := make([]byte, ethernet.HeaderLen, ethernet.HeaderLen+len(reply))
	to := h.Src
	if h.Type == ethernet.TypeIPv6 && netip.AddrFrom16([16]byte(reply[24:])) == allNodes {
		to = ethernet.GroupMAC(allNodes)
	}
	(&ethernet.Header{Dst: to, Src: gateway, Type: h.Type}).Put(frame)
	frame = append(frame, reply...)
	n.show(a, 0, frame) // without room the host asks again
	return true
}

// arpAnswer returns the address that an ARP request asks for, and the answer.
func arpAnswer(request []byte, mac ethernet.MAC) (target netip.Addr, r []byte) {
	r = make([]byte, arpLen)
	binary.BigEndian.PutUint64(r, arpHead<<16|arpReply)
	copy(r[8:], mac[:])
	copy(r[14:], request[24:28])
	copy(r[18:], request[8:18])
	return netip.AddrFrom4([4]byte(request[24:])), r
}

// allNodes is the group of all hosts of a link.
var allNodes = netip.IPv6LinkLocalAllNodes()

// discoveryAnswer returns the address that a neighbor solicitation asks for, and the advertisement, both
// from the IPv6 header on. If a host asks whether an address is free, it has
// none yet, so the answer goes to all nodes (RFC 4861 7.2.4).
func discoveryAnswer(request []byte, mac ethernet.MAC) (target netip.Addr, r []byte) {
	target = netip.AddrFrom16([16]byte(request[ipv6Len+8:]))
	to, flags := netip.AddrFrom16([16]byte(request[8:])), uint8(solicited|override)
	if to.IsUnspecified() {
		to, flags = allNodes, override
	}
	r = make([]byte, ipv6Len+discoveryLen+linkOptionLen)
	m := r[ib.PutIP(r, target, to, 0, discoveryHops, 0, discoveryLen+linkOptionLen):]
	setProtocol(r, protocolICMPv6)
	m[0], m[4] = advertisement, flags
	copy(m[8:], request[ipv6Len+8:ipv6Len+discoveryLen])
	m[discoveryLen], m[discoveryLen+1] = 2, 1 // target's address, in units of 8 bytes
	copy(m[discoveryLen+2:], mac[:])
	binary.BigEndian.PutUint16(m[2:], ib.Checksum(protocolICMPv6, target, to, m))
	return target, r
}
