package capture

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/frame/rocev1"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A decoder parses the headers before the transport header in captured frames.
type decoder struct {
	ethernet layers.Ethernet
	vlan     layers.Dot1Q
	cooked   layers.LinuxSLL
	cooked2  layers.LinuxSLL2
	loopback layers.Loopback
	ip4      layers.IPv4
	ip6      layers.IPv6
	udp      layers.UDP

	parsers map[gopacket.LayerType]*gopacket.DecodingLayerParser
	found   []gopacket.LayerType
	headers [60 + udpLen]byte // IP and UDP headers of the current packet
	n       int               // their length; 0 if the ICRC cannot be computed from them

	prefix  ib.Prefix // of the ICRC of RoCE v1 between two GIDs
	between [2]netip.Addr
	native  []byte // the current packet of InfiniBand, from LRH to ICRC
}

// first returns the first layer of frames of a link type.
func first(link layers.LinkType, data []byte) gopacket.LayerType {
	switch link {
	case layers.LinkTypeEthernet:
		return layers.LayerTypeEthernet
	case layers.LinkTypeLinuxSLL:
		return layers.LayerTypeLinuxSLL
	case layers.LinkTypeLinuxSLL2:
		return layers.LayerTypeLinuxSLL2
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return layers.LayerTypeLoopback
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6
	case layers.LinkTypeRaw, 12, 14: // the numbers of raw IP on some systems
		if len(data) > 0 && data[0]>>4 == 6 {
			return layers.LayerTypeIPv6
		}
		return layers.LayerTypeIPv4
	}
	return gopacket.LayerTypeZero
}

func (d *decoder) parser(t gopacket.LayerType) *gopacket.DecodingLayerParser {
	if p := d.parsers[t]; p != nil {
		return p
	}
	p := gopacket.NewDecodingLayerParser(t, &d.ethernet, &d.vlan, &d.cooked, &d.cooked2,
		&d.loopback, &d.ip4, &d.ip6, &d.udp)
	p.IgnoreUnsupported = true
	if d.parsers == nil {
		d.parsers = make(map[gopacket.LayerType]*gopacket.DecodingLayerParser)
	}
	d.parsers[t] = p
	return p
}

// decode fills in the fields of p that the headers have, and reports whether the
// frame is of InfiniBand or RoCE v1, or an unfragmented UDP datagram.
func (d *decoder) decode(link layers.LinkType, data []byte, p *Packet) bool {
	switch link {
	case linkInfiniBand:
		return d.decodeNative(data, p)
	case linkERF: // the highest bit of the type says that more headers follow
		return len(data) > erfHeaderLen && data[8] == erfInfiniBand && d.decodeNative(data[erfHeaderLen:], p)
	}
	t := first(link, data)
	if t == gopacket.LayerTypeZero {
		return false
	}
	parser := d.parser(t)
	if err := parser.DecodeLayers(data, &d.found); err != nil || len(d.found) == 0 {
		return false
	}
	if b := d.roceV1(); b != nil {
		return d.decodeV1(b, p)
	}
	if len(d.found) < 2 || d.found[len(d.found)-1] != layers.LayerTypeUDP {
		return false
	}
	var src, dst netip.Addr
	var ip []byte
	switch d.found[len(d.found)-2] {
	case layers.LayerTypeIPv4:
		src, _ = netip.AddrFromSlice(d.ip4.SrcIP)
		dst, _ = netip.AddrFromSlice(d.ip4.DstIP)
		p.TOS, p.TTL, p.ID = d.ip4.TOS, d.ip4.TTL, d.ip4.Id
		ip = d.ip4.Contents
	case layers.LayerTypeIPv6:
		src, _ = netip.AddrFromSlice(d.ip6.SrcIP)
		dst, _ = netip.AddrFromSlice(d.ip6.DstIP)
		p.TOS, p.TTL = d.ip6.TrafficClass, d.ip6.HopLimit
		if ip = d.ip6.Contents; d.ip6.HopByHop != nil {
			ip = nil // the ICRC of a packet with extension headers is not defined
		}
	default:
		return false
	}
	p.Src = netip.AddrPortFrom(src, uint16(d.udp.SrcPort))
	p.Dst = netip.AddrPortFrom(dst, uint16(d.udp.DstPort))
	p.Data = d.udp.Payload
	p.Length = max(len(p.Data), int(d.udp.Length)-udpLen)
	p.Truncated = parser.Truncated && len(p.Data) < p.Length
	d.n = 0
	if ip != nil {
		d.n = copy(d.headers[:], ip)
		d.n += copy(d.headers[d.n:], d.udp.Contents)
	}
	return true
}

// roceV1 returns the payload of a frame with the EtherType of RoCE v1, else nil.
func (d *decoder) roceV1() []byte {
	switch d.found[len(d.found)-1] {
	case layers.LayerTypeEthernet:
		if d.ethernet.EthernetType == rocev1.EtherType {
			return d.ethernet.Payload
		}
	case layers.LayerTypeDot1Q:
		if d.vlan.Type == rocev1.EtherType {
			return d.vlan.Payload
		}
	case layers.LayerTypeLinuxSLL:
		if d.cooked.EthernetType == rocev1.EtherType {
			return d.cooked.Payload
		}
	case layers.LayerTypeLinuxSLL2:
		if uint16(d.cooked2.ProtocolType) == rocev1.EtherType {
			return d.cooked2.Payload
		}
	}
	return nil
}

// decodeV1 fills in the fields of p that the GRH has, and reports whether there is a
// GRH.
func (d *decoder) decodeV1(b []byte, p *Packet) bool {
	var h ib.GRH
	if !h.Parse(b) || h.NextHeader != ib.NextBTH {
		return false
	}
	src, dst := netip.AddrFrom16(h.SGID).Unmap(), netip.AddrFrom16(h.DGID).Unmap()
	p.V1, p.Src, p.Dst = true, netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
	p.TOS, p.TTL = h.TrafficClass, h.HopLimit
	p.Length = int(h.PayLen)
	p.Data = b[ib.GRHLen:]
	p.Data = p.Data[:min(len(p.Data), p.Length)] // Ethernet may have padded it
	p.Truncated = len(p.Data) < p.Length
	d.n = 0
	if between := [2]netip.Addr{src, dst}; between != d.between {
		d.between, d.prefix = between, rocev1.ICRCPrefix(src, dst)
	}
	return true
}

// decodeNative fills in the fields of p that the headers of an InfiniBand packet have, and
// reports whether it is a packet of queue pairs.
func (d *decoder) decodeNative(b []byte, p *Packet) bool {
	var h ib.LRH
	if !h.Parse(b) || h.Next != ib.LocalBTH && h.Next != ib.GlobalGRH || len(b) < h.HeaderLen() {
		return false
	}
	p.Native, p.Src, p.Dst = true, qp.LIDEndpoint(uint16(h.SLID)), qp.LIDEndpoint(uint16(h.DLID))
	if h.Next == ib.GlobalGRH {
		var g ib.GRH
		if !g.Parse(b[ib.LRHLen:]) || g.NextHeader != ib.NextBTH {
			return false
		}
		p.Src = netip.AddrPortFrom(netip.AddrFrom16(g.SGID), uint16(h.SLID))
		p.Dst = netip.AddrPortFrom(netip.AddrFrom16(g.DGID), uint16(h.DLID))
		p.TOS, p.TTL = g.TrafficClass, g.HopLimit
	}
	end := 4 * int(h.Words)
	d.native = b[:min(len(b), end)]
	p.Length, p.Data = end-h.HeaderLen(), d.native[h.HeaderLen():]
	p.Truncated = len(b) < end
	return p.Length >= 0
}

// sum returns the ICRC that a packet should have, and reports whether it can be
// computed.
func (d *decoder) sum(p *Packet) (uint32, bool) {
	if !p.V1 && !p.Native {
		return ib.SumCaptured(d.headers[:d.n], p.Data)
	}
	if len(p.Data) < ib.BTHLen+ib.ICRCLen {
		return 0, false
	}
	if p.Native {
		return ib.NativeICRC(d.native), true
	}
	return d.prefix.Sum(0, p.Data), true
}

// check parses the packet and verifies its ICRC.
func (d *decoder) check(p *Packet) {
	if p.Truncated {
		p.parseTruncated()
		return
	}
	p.Fault = p.Parse(p.Data)
	sum, ok := d.sum(p)
	if !ok {
		return
	}
	p.Expected, p.Found, p.ICRC = sum, ib.ICRC(p.Data), Bad
	if p.Expected == p.Found {
		p.ICRC = Good
	}
}

// parseTruncated parses the headers of a packet whose end is missing, as if the
// missing bytes were zero.
func (p *Packet) parseTruncated() {
	if len(p.Data) < ib.BTHLen || p.Length > maxSnap {
		p.Fault = ib.Short
		return
	}
	whole := make([]byte, p.Length)
	copy(whole, p.Data)
	p.Fault = p.Parse(whole)
	if i := p.Opcode.Info(); i != nil && len(p.Data) < i.Len {
		p.Fault = ib.Short // the extended headers are incomplete too
	}
}
