package fabric

import (
	"encoding/binary"
	"net/netip"
)

// A Datagram has the fields of the IP and UDP headers of a message's datagrams. A program and the
// network stack of its port pass them in front of the payload, as a socket does.
type Datagram struct {
	Src, Dst netip.AddrPort
	TOS      uint8 // DSCP and ECN
	HopLimit uint8 // 0 means the stack's default
}

// datagramLen is the length of a Datagram in memory, tosAt where its TOS is, and hopsAt where the
// number of hops is behind it.
const (
	datagramLen = hopsAt + 1
	hopsAt      = tosAt + 2
	tosAt       = 2 * (16 + 2)
)

// put writes the fields:
//
//	source (16), destination (16), source port (2), destination port (2), TOS (1), hop limit (1)
//
// Behind them is the number of hops (1) that the message has in front of its payload, for a program
// whose datagram has asked the switches for telemetry: see own.Hop.
func (d *Datagram) put(b []byte) {
	src, dst := d.Src.Addr().As16(), d.Dst.Addr().As16()
	copy(b, src[:])
	copy(b[16:], dst[:])
	binary.LittleEndian.PutUint16(b[32:], d.Src.Port())
	binary.LittleEndian.PutUint16(b[34:], d.Dst.Port())
	b[tosAt], b[tosAt+1] = d.TOS, d.HopLimit
}

// Parse reads the headers of a batch.
func (d *Datagram) Parse(b []byte) {
	src, dst := netip.AddrFrom16([16]byte(b)).Unmap(), netip.AddrFrom16([16]byte(b[16:])).Unmap()
	d.Src = netip.AddrPortFrom(src, binary.LittleEndian.Uint16(b[32:]))
	d.Dst = netip.AddrPortFrom(dst, binary.LittleEndian.Uint16(b[34:]))
	d.TOS, d.HopLimit = b[tosAt], b[tosAt+1]
}

// Group is the name of an IP multicast group on the fabric: its IPv6 address, or for IPv4 that of
// RoCE v1's GID of the group.
func Group(ip netip.Addr) (g [16]byte) {
	g = ip.As16()
	if ip.Unmap().Is4() {
		g[0], g[1] = 0xff, 0x0e
	}
	return g
}

// GroupMAC is the name of the group of a MAC address on the fabric.
func GroupMAC(mac [6]byte) (g [16]byte) {
	g[0] = 0xff // and scope 0, which no group of IP has
	copy(g[10:], mac[:])
	return g
}

// priorityShift is what is left of the bits of a TOS in front of its class selector (RFC 2474 4.2.2).
const priorityShift = 5

// Priority is the priority of the datagrams on the fabric, and the number of their ring: the first
// three bits of their DSCP, as in switches without a configuration.
func (d *Datagram) Priority() uint8 { return d.TOS >> priorityShift }
