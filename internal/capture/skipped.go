package capture

import (
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/frame/rocev1"
)

// describe names the contents of a frame without a packet of RoCE or InfiniBand: its innermost
// transport, else the last header that was parsed and the type of what follows it.
func describe(frame []gopacket.Layer) string {
	var last gopacket.Layer
	damaged := false
	for _, l := range frame {
		switch l.LayerType() {
		case gopacket.LayerTypeDecodeFailure:
			damaged = true
		case gopacket.LayerTypePayload:
		default:
			last = l
		}
	}
	for i := len(frame) - 1; i >= 0; i-- {
		switch l := frame[i].(type) {
		case *layers.TCP:
			return "TCP"
		case *layers.UDP:
			switch {
			case l.Length == udpLen:
				return fmt.Sprintf("empty datagrams to UDP port %d", uint16(l.DstPort))
			case len(l.Contents) == udpLen:
				return fmt.Sprintf("UDP to port %d", uint16(l.DstPort))
			}
		case *layers.ICMPv4, *layers.ICMPv6, *layers.ARP, *layers.SCTP:
			return l.LayerType().String()
		}
	}
	if last == nil {
		return "damaged or empty frames"
	}
	if last.LayerType() == gopacket.LayerTypeFragment {
		return "IPv6 fragments"
	}
	if !damaged {
		return last.LayerType().String()
	}
	if t, ok := etherType(last); ok {
		if t == rocev1.EtherType {
			return "RoCE v1 without a transport header"
		}
		if t.LayerType() == gopacket.LayerTypeZero {
			return fmt.Sprintf("EtherType 0x%04x", uint16(t))
		}
	}
	if ip, ok := last.(*layers.IPv4); ok && ip.Protocol.LayerType() == gopacket.LayerTypeZero {
		return fmt.Sprintf("IP protocol %d", uint8(ip.Protocol))
	}
	if ip, ok := last.(*layers.IPv6); ok && ip.NextHeader.LayerType() == gopacket.LayerTypeZero {
		return fmt.Sprintf("IP protocol %d", uint8(ip.NextHeader))
	}
	return "damaged after the header of " + last.LayerType().String()
}
