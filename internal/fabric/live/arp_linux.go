package live

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/link/fabric"
	"softrdma/internal/wire/ethernet"
)

// Fields of ARP for IPv4 over Ethernet (RFC 826).
const (
	arpLen     = 28
	arpHead    = 0x0001_0800_06_04 // hardware and protocol, and the lengths of their addresses
	arpRequest = 1
	arpReply   = 2
)

// answerARP answers a host's request for the MAC address of another host of the fabric with that of its
// switch, which routes (RFC 1027), and reports whether the frame was ARP. ARP crosses no switch.
func (n *ethernetNetwork) answerARP(a *attachment, f *dcb.Frame) bool {
	var h ethernet.Header
	at := h.Parse(f.Data)
	if h.Type != ethernet.TypeARP {
		return false
	}
	b := f.Data[at:]
	if len(b) < arpLen || binary.BigEndian.Uint64(b) != arpHead<<16|arpRequest {
		return true
	}
	target := netip.AddrFrom4([4]byte(b[24:]))
	if node, ok := n.hosts[target]; !ok || node == a.at.Node {
		return true
	}
	gateway := n.lan.Gateway(a.at.Node).MAC()
	reply := make([]byte, at+arpLen)
	(&ethernet.Header{Dst: h.Src, Src: gateway, Type: ethernet.TypeARP}).Put(reply)
	r := reply[ethernet.HeaderLen:]
	binary.BigEndian.PutUint64(r, arpHead<<16|arpReply)
	copy(r[8:], gateway[:])
	copy(r[14:], b[24:28])
	copy(r[18:], b[8:18])
	reply = reply[:ethernet.HeaderLen+arpLen]
	if a.end.Room(0, 1, len(reply)) && a.end.PutDatagrams(0, &fabric.Datagram{}, len(reply), [][]byte{reply}, len(reply)) {
		a.heard(0)
	} // otherwise the host asks again
	return true
}
