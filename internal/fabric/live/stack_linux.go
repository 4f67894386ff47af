package live

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// The network stack of a host's port. It writes headers that programs leave to it and checks those that
// they write, and reads the headers of what arrives.

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8

	protocolTCP = 6
	protocolUDP = 17

	dontFragment = 1 << 14

	// defaultHops is the hop limit of datagrams for which a program sets none.
	defaultHops = 64
)

// wrapDatagram writes the headers in front of a program's payload, as a network stack does.
func (n *ethernetNetwork) wrapDatagram(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	d := &n.out
	own, dst := a.service.addr, d.Dst.Addr()
	switch {
	case d.Src.Addr() != own:
		return reason.Detail{Reason: reason.PacketGID, Expected: low(own), Found: low(d.Src.Addr())}
	case d.Priority() != level:
		return reason.Detail{Reason: reason.FabricLane, Expected: uint64(level), Found: uint64(d.Priority())}
	case dst.Is4() != own.Is4():
		return reason.Detail{Reason: reason.EthernetRoute, Found: low(dst)}
	}
	if d.HopLimit == 0 {
		d.HopLimit = defaultHops
	}
	size := len(f.Data) - a.service.front()
	at := n.link(a, f, dst)
	at += ib.PutIP(f.Data[at:], own, dst, d.TOS, d.HopLimit, 0, udpLen+size)
	ib.PutUDP(f.Data[at:], d.Src.Port(), d.Dst.Port(), size, 0)
	if own.Is6() { // RFC 8200 8.1: not without a checksum
		binary.BigEndian.PutUint16(f.Data[at+6:], ib.Checksum(protocolUDP, own, dst, f.Data[at:]))
	}
	return f.Parse()
}

// link writes the Ethernet header of a packet to an address: to the group's address, or to the switch,
// which routes. It returns the header's length.
func (n *ethernetNetwork) link(a *attachment, f *dcb.Frame, dst netip.Addr) int {
	e := ethernet.Header{Dst: n.lan.Gateway(a.at.Node).MAC(), Src: n.lan.Host(a.at.Node).Address().MAC(), Type: ethernet.TypeIPv4}
	if dst.Is6() {
		e.Type = ethernet.TypeIPv6
	}
	if dst.IsMulticast() {
		e.Dst = ethernet.GroupMAC(dst)
	}
	return e.Put(f.Data)
}

// wrapSegment writes the Ethernet header in front of a program's packet of TCP.
func (n *ethernetNetwork) wrapSegment(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	own := a.service.addr
	n.link(a, f, own)
	if why := f.Parse(); why.Reason != reason.None {
		return why
	}
	b := f.Data[ethernet.HeaderLen:]
	version, protocol := b[0]>>4, b[9]
	var src netip.Addr
	if own.Is4() {
		src = netip.AddrFrom4([4]byte(b[12:]))
	} else {
		src, protocol = netip.AddrFrom16([16]byte(b[8:])), b[6]
	}
	switch {
	case own.Is4() && version != 4 || own.Is6() && version != 6 || protocol != protocolTCP:
		return reason.Detail{Reason: reason.EthernetDatagram, Expected: protocolTCP, Found: uint64(protocol)}
	case src != own:
		return reason.Detail{Reason: reason.PacketGID, Expected: low(own), Found: low(src)}
	case f.DSCP>>3 != level:
		return reason.Detail{Reason: reason.FabricLane, Expected: uint64(level), Found: uint64(f.DSCP >> 3)}
	}
	return reason.Detail{}
}

// checkFrame checks a frame of a host that has a network stack of its own.
func (n *ethernetNetwork) checkFrame(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	if level >= ethernet.Priorities {
		return reason.Detail{Reason: reason.FabricLane, Expected: ethernet.Priorities - 1, Found: uint64(level)}
	}
	why := f.Parse()
	if own := n.lan.Host(a.at.Node).Address(); why.Reason == reason.None && f.Src != own {
		why = reason.Detail{Reason: reason.EthernetForeign, Expected: uint64(own), Found: uint64(f.Src)}
	}
	return why
}

// checkRoCE checks a frame of RoCE v1, and gives one to no address that of the host itself.
func (n *ethernetNetwork) checkRoCE(a *attachment, f *dcb.Frame, level uint8) reason.Detail {
	own := n.lan.Host(a.at.Node).Address()
	if len(f.Data) >= ethernet.HeaderLen && [6]byte(f.Data) == [6]byte{} {
		mac := own.MAC()
		copy(f.Data, mac[:])
	}
	if why := n.checkFrame(a, f, level); why.Reason != reason.None {
		return why
	}
	b := f.Data[ethernet.HeaderLen:]
	switch {
	case f.Tagged || binary.BigEndian.Uint16(f.Data[12:]) != ethernet.TypeRoCE:
		return reason.Detail{Reason: reason.EthernetDatagram, Expected: ethernet.TypeRoCE, Found: uint64(binary.BigEndian.Uint16(f.Data[12:]))}
	case len(b) < ib.GRHLen+ib.BTHLen:
		return reason.Detail{Reason: reason.EthernetLength, Expected: ib.GRHLen + ib.BTHLen, Found: uint64(len(b))}
	case f.DSCP>>3 != level:
		return reason.Detail{Reason: reason.FabricLane, Expected: uint64(level), Found: uint64(f.DSCP >> 3)}
	}
	if src := netip.AddrFrom16([16]byte(b[8:])).Unmap(); src != a.service.addr {
		return reason.Detail{Reason: reason.PacketGID, Expected: low(a.service.addr), Found: low(src)}
	}
	return reason.Detail{}
}

// low is the last four bytes of an address.
func low(a netip.Addr) uint64 {
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}

// An arrival is what a frame has for programs.
type arrival struct {
	service
	to      dcb.IP          // the host's address in it
	head    fabric.Datagram // for the program
	payload []byte          // for the program
	packet  []byte          // of RoCE, from BTH on
	hops    []own.Hop       // what switches said of it
	group   [16]byte        // to which it is; zero if it is for one host
}

// read reads the headers of a frame.
func (x *arrival) read(f *dcb.Frame) reason.Detail {
	var h ethernet.Header
	*x = arrival{}
	at := h.Parse(f.Data)
	b := f.Data[min(at, len(f.Data)):]
	var why reason.Detail
	switch {
	case h.Type == ethernet.TypeRoCE && len(b) >= ib.GRHLen+ib.BTHLen:
		x.kind, x.to = hostport.RoCEFrames, dcb.IPFrom([16]byte(b[24:]))
		x.head.TOS = f.DSCP<<2 | f.ECN
		x.payload, x.packet = f.Data, b[ib.GRHLen:]
		if f.Dst.Group() {
			x.group = fabric.GroupMAC(f.Dst.MAC())
		}
	case h.Type == ethernet.TypeIPv4 && len(b) >= ipv4Len && b[0] == 0x45:
		why = x.readIP(f, b, ipv4Len, int(binary.BigEndian.Uint16(b[2:])), b[9], binary.BigEndian.Uint16(b[6:])&^dontFragment != 0)
	case h.Type == ethernet.TypeIPv6 && len(b) >= ipv6Len && b[0]>>4 == 6 && f.To.Addr().Is6():
		why = x.readIP(f, b, ipv6Len, ipv6Len+int(binary.BigEndian.Uint16(b[4:])), b[6], false)
	default:
		why = reason.Detail{Reason: reason.EthernetDatagram, Expected: protocolUDP, Found: uint64(h.Type)}
	}
	x.addr = x.to.Addr()
	if t := f.Telemetry; t != nil && x.packet != nil {
		x.hops = t.Hops[:t.Count]
	}
	return why
}

// inform gives a frame of RoCE room for what switches say, if its packet asks for that: in requests
// between softrdma ends. It goes beside the frame, whose bytes stay as they are.
func (s service) inform(f *dcb.Frame, dst uint16) {
	at := s.front()
	switch {
	case s.kind == hostport.RoCEFrames:
		at = ethernet.HeaderLen + ib.GRHLen
	case s.kind != hostport.Datagrams || dst != ib.UDPPort:
		return
	}
	var h ib.BTH
	if f.Dst.Group() || !h.Parse(f.Data[min(at, len(f.Data)):]) || !h.Telemetry {
		return
	}
	t, ok := f.Content.(*dcb.Telemetry)
	if !ok {
		t = new(dcb.Telemetry)
		f.Content = t
	}
	t.Count = 0
	f.Telemetry = t
}

// readIP reads a packet of IP that should have length bytes, headers of them in front of the protocol.
func (x *arrival) readIP(f *dcb.Frame, b []byte, headers, length int, protocol uint8, fragment bool) reason.Detail {
	x.to = f.To
	switch {
	case fragment || protocol != protocolUDP && protocol != protocolTCP || protocol == protocolTCP && f.Dst.Group():
		return reason.Detail{Reason: reason.EthernetDatagram, Expected: protocolUDP, Found: uint64(protocol)}
	case length <= headers+udpLen || length > len(b):
		return reason.Detail{Reason: reason.EthernetLength, Expected: uint64(max(length, headers+udpLen+1)), Found: uint64(len(b))}
	}
	b = b[:length]
	u := b[headers:]
	var src netip.Addr
	if headers == ipv4Len {
		src = netip.AddrFrom4([4]byte(b[12:]))
	} else {
		src = netip.AddrFrom16([16]byte(b[8:]))
	}
	x.head = fabric.Datagram{
		Src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(u)),
		Dst: netip.AddrPortFrom(x.to.Addr(), binary.BigEndian.Uint16(u[2:])),
		TOS: f.DSCP<<2 | f.ECN, HopLimit: f.Hops,
	}
	if protocol == protocolTCP {
		x.kind, x.payload = hostport.Segments, b
		return reason.Detail{}
	}
	n := int(binary.BigEndian.Uint16(u[4:]))
	if n <= udpLen || n > len(u) {
		return reason.Detail{Reason: reason.EthernetLength, Expected: uint64(max(n, udpLen+1)), Found: uint64(len(u))}
	}
	x.kind, x.payload, x.packet = hostport.Datagrams, u[udpLen:n], u[udpLen:n]
	if f.Dst.Group() {
		x.group = fabric.Group(x.head.Dst.Addr())
	}
	return reason.Detail{}
}

// setProtocol makes a packet of UDP one of another protocol, in its IP header.
func setProtocol(b []byte, protocol uint8) {
	if b[0]>>4 == 6 {
		b[6] = protocol
		return
	}
	sum := uint32(^binary.BigEndian.Uint16(b[10:])) + uint32(^binary.BigEndian.Uint16(b[8:])) // RFC 1624 3
	b[9] = protocol
	sum += uint32(binary.BigEndian.Uint16(b[8:]))
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
}
