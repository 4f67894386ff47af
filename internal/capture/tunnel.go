package capture

import (
	"encoding/binary"
	"errors"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// EtherTypes and UDP ports in use besides the registered ones.
const (
	etherTypeVLAN9100  layers.EthernetType = 0x9100 // outer VLAN tag before IEEE 802.1ad
	etherTypeVLAN9200  layers.EthernetType = 0x9200
	etherTypeERSPANIII layers.EthernetType = 0x22eb
	portVXLANLinux     layers.UDPPort      = 8472 // Linux's default
)

// The library parses tags and tunnels by tables that programs may extend.
func init() {
	tag := layers.EthernetTypeMetadata[layers.EthernetTypeQinQ]
	layers.EthernetTypeMetadata[etherTypeVLAN9100] = tag
	layers.EthernetTypeMetadata[etherTypeVLAN9200] = tag
	layers.EthernetTypeMetadata[etherTypeERSPANIII] = layers.EnumMetadata{
		DecodeWith: gopacket.DecodeFunc(decodeERSPANIII), Name: "ERSPAN Type III", LayerType: layerTypeERSPANIII,
	}
	layers.RegisterUDPPortLayerType(portVXLANLinux, layers.LayerTypeVXLAN)
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
	case layers.LinkTypePPP, layers.LinkTypePPP_HDLC:
		return layers.LayerTypePPP
	case layers.LinkTypePPPEthernet:
		return layers.LayerTypePPPoE
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

// etherType returns the EtherType of the data after a link layer.
func etherType(l gopacket.Layer) (t layers.EthernetType, ok bool) {
	switch l := l.(type) {
	case *layers.Ethernet:
		return l.EthernetType, true
	case *layers.Dot1Q:
		return l.Type, true
	case *layers.LinuxSLL:
		return l.EthernetType, true
	case *layers.LinuxSLL2:
		return l.ProtocolType, true
	case *layers.GRE:
		return l.Protocol, true
	case *layers.Geneve:
		return l.Protocol, true
	}
	return 0, false
}

// Types of ERF records, and the length of what precedes their Ethernet frame.
const (
	erfEthernet          = 2
	erfColorEthernet     = 11
	erfDSMColorEthernet  = 16
	erfColorHashEthernet = 20
	erfIPv4              = 22
	erfIPv6              = 23
	erfEthernetPad       = 2
	erfMore              = 0x80 // another extension header of 8 bytes follows
)

// fromERF returns the frame in an ERF record and its link type.
func fromERF(b []byte) (link layers.LinkType, frame []byte, ok bool) {
	if len(b) <= erfHeaderLen {
		return 0, nil, false
	}
	kind, frame := b[8], b[erfHeaderLen:]
	for more := kind; more&erfMore != 0; {
		if len(frame) < 8 {
			return 0, nil, false
		}
		more, frame = frame[0], frame[8:]
	}
	switch kind &^ erfMore {
	case erfEthernet, erfColorEthernet, erfDSMColorEthernet, erfColorHashEthernet:
		if len(frame) < erfEthernetPad {
			return 0, nil, false
		}
		return layers.LinkTypeEthernet, frame[erfEthernetPad:], true
	case erfIPv4:
		return layers.LinkTypeIPv4, frame, true
	case erfIPv6:
		return layers.LinkTypeIPv6, frame, true
	case erfInfiniBand:
		return linkInfiniBand, frame, true
	}
	return 0, nil, false
}

// An erspanIII is the header of a mirrored frame with a time stamp, ERSPAN Type III:
//
//	+-------+-----------------------+-----+----+-+-------------------+
//	|  Ver  |         VLAN          | COS | BSO|T|    Session ID     |
//	+-------+-----------------------+-----+----+-+-------------------+
//	|                          Timestamp                             |
//	+-------------------------------+-+---------+-----------+-+---+--+
//	|             SGT               |P|   FT    |   Hw ID   |D|Gra|O |
//	+-------------------------------+-+---------+-----------+-+---+--+
//
// With O set a subheader of 8 bytes follows. FT 0 is Ethernet.
type erspanIII struct{ layers.BaseLayer }

const erspanIIILen = 12

var layerTypeERSPANIII = gopacket.RegisterLayerType(1000, gopacket.LayerTypeMetadata{
	Name: "ERSPAN Type III", Decoder: gopacket.DecodeFunc(decodeERSPANIII),
})

// LayerType implements gopacket.Layer.
func (*erspanIII) LayerType() gopacket.LayerType { return layerTypeERSPANIII }

func decodeERSPANIII(b []byte, p gopacket.PacketBuilder) error {
	n := erspanIIILen
	if len(b) >= n && b[n-1]&1 != 0 {
		n += 8
	}
	if len(b) < n {
		p.SetTruncated()
		return errors.New("ERSPAN Type III header too short")
	}
	if version, kind := b[0]>>4, binary.BigEndian.Uint16(b[10:])>>10&31; version != 2 || kind != 0 {
		return errors.New("ERSPAN Type III of another version or without an Ethernet frame")
	}
	p.AddLayer(&erspanIII{layers.BaseLayer{Contents: b[:n], Payload: b[n:]}})
	return p.NextDecoder(layers.LayerTypeEthernet)
}
