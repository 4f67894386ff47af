package capture

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/frame/rocev1"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A decoder parses the headers before the transport header in captured frames.
type decoder struct {
	ports     []uint16 // UDP ports of RoCE v2
	fragments fragments
	headers   [60 + udpLen]byte // IP and UDP headers of the current packet
	n         int               // their length; 0 if the ICRC cannot be computed from them

	prefix  ib.Prefix // of the ICRC of RoCE v1 between two GIDs
	between [2]netip.Addr
	native  []byte // the current packet of InfiniBand, from LRH to ICRC
}

// fragmentKept is returned by decode for a fragment. Fragments of incomplete datagrams are
// counted at the end.
const fragmentKept = "incomplete IPv4 fragments"

// decode fills in the fields of p from the headers if the frame contains a packet of
// InfiniBand or RoCE, in any tunnel. Otherwise it describes the frame's contents.
func (d *decoder) decode(link layers.LinkType, data []byte, p *Packet) (other string) {
	if link == linkERF {
		var ok bool
		if link, data, ok = fromERF(data); !ok {
			return "ERF records of another type"
		}
	}
	if link == linkInfiniBand {
		if !d.decodeNative(data, p) {
			return "InfiniBand without a transport header"
		}
		return ""
	}
	t := first(link, data)
	if t == gopacket.LayerTypeZero {
		return fmt.Sprintf("frames of link type %d", link)
	}
	for {
		frame := gopacket.NewPacket(data, t, gopacket.DecodeOptions{Lazy: true, NoCopy: true}).Layers()
		if d.roceV2(frame, p) || d.roceV1(frame, p) {
			return ""
		}
		ip := fragment(frame)
		if ip == nil {
			return describe(frame)
		}
		if data = d.fragments.add(ip, p.Time); data == nil {
			return fragmentKept
		}
		t, p.Reassembled = layers.LayerTypeIPv4, true
	}
}

// roceV2 fills in the fields of p from the outermost UDP header with a port of RoCE v2. It passes
// over empty datagrams: softrdma sends one from each socket to learn how the system numbers packets.
func (d *decoder) roceV2(frame []gopacket.Layer, p *Packet) bool {
	for i, layer := range frame {
		udp, ok := layer.(*layers.UDP)
		if !ok || i == 0 || len(udp.Contents) != udpLen || udp.Length == udpLen || !slices.Contains(d.ports, uint16(udp.DstPort)) {
			continue
		}
		ip := d.network(frame[:i], p)
		p.Src = netip.AddrPortFrom(p.Src.Addr(), uint16(udp.SrcPort))
		p.Dst = netip.AddrPortFrom(p.Dst.Addr(), uint16(udp.DstPort))
		p.Data = udp.Payload
		p.Length = max(len(p.Data), int(udp.Length)-udpLen)
		p.Truncated = len(p.Data) < p.Length
		d.n = 0
		if ip != nil {
			d.n = copy(d.headers[:], ip)
			d.n += copy(d.headers[d.n:], udp.Contents)
		}
		return true
	}
	return false
}

// network fills in the fields of p from the innermost IP header before a UDP header. It
// returns that header if the ICRC covers it: the ICRC of a packet with extension headers is
// not defined.
func (d *decoder) network(before []gopacket.Layer, p *Packet) (header []byte) {
	for i := len(before) - 1; i >= 0; i-- {
		last := i == len(before)-1
		switch ip := before[i].(type) {
		case *layers.IPv4:
			p.Src, p.Dst = endpoint(ip.SrcIP), endpoint(ip.DstIP)
			p.TOS, p.TTL, p.ID = ip.TOS, ip.TTL, ip.Id
			if last {
				header = ip.Contents
			}
			return header
		case *layers.IPv6:
			p.Src, p.Dst = endpoint(ip.SrcIP), endpoint(ip.DstIP)
			p.TOS, p.TTL = ip.TrafficClass, ip.HopLimit
			if last && ip.HopByHop == nil {
				header = ip.Contents
			}
			return header
		}
	}
	return nil
}

func endpoint(ip net.IP) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a, 0)
}

// roceV1 fills in the fields of p from a frame with the EtherType of RoCE v1.
func (d *decoder) roceV1(frame []gopacket.Layer, p *Packet) bool {
	for _, layer := range frame {
		if t, ok := etherType(layer); ok && t == rocev1.EtherType {
			return d.decodeV1(layer.LayerPayload(), p)
		}
	}
	return false
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
