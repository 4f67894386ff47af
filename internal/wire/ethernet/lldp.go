package ethernet

import (
	"encoding/binary"

	"softrdma/internal/reason"
)

// NearestMAC is the address of LLDP between the two ends of a link (802.1AB table 7-1). No bridge
// forwards frames to it.
var NearestMAC = MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}

// The types of LLDP's elements (802.1AB table 8-1).
const (
	elementEnd          = 0
	elementChassis      = 1
	elementPort         = 2
	elementTTL          = 3
	elementSystemName   = 5
	elementOrganization = 127
)

const (
	elementHeader   = 2
	maxElement      = 511 // length in 9 bits
	organizationLen = 4   // organization and subtype
	maxID           = 255 // 802.1AB 8.5.2.3
)

// organization is IEEE 802.1's, and these are its subtypes for DCBX (802.1Q table D-1).
const organization = 0x0080c2

const (
	subtypeETS            = 9
	subtypeRecommendation = 10
	subtypePFC            = 11
	subtypeApplication    = 12
)

// The kinds of identifiers that this package's users choose (802.1AB tables 8-2, 8-3).
const (
	ChassisMAC = 4
	PortMAC    = 3
	PortName   = 5
)

// An ID is the identifier of a chassis or a port.
type ID struct {
	Kind  uint8
	Value string // bytes; 1 to 255 of them
}

// An LLDP is what a port says about itself (802.1AB). DCBX is in it: how the port treats
// priorities, and what it recommends to the other end (802.1Q annex D).
//
//	+---------+----------+-------------+
//	| type: 7 | length:9 | value ...   |  for each element
//	+---------+----------+-------------+
type LLDP struct {
	Src           MAC
	Chassis, Port ID
	TTL           uint16 // in seconds; 0 takes back what the port has said
	SystemName    string

	ETS            *ETS // nil if there is no such element; the same below
	Recommendation *ETS
	PFC            *PFC
	Applications   []Application
}

// Append appends the frame to b, without padding.
func (l *LLDP) Append(b []byte) []byte {
	var h [HeaderLen]byte
	(&Header{Dst: NearestMAC, Src: l.Src, Type: TypeLLDP}).Put(h[:])
	b = append(b, h[:]...)
	b = appendID(b, elementChassis, l.Chassis)
	b = appendID(b, elementPort, l.Port)
	b = appendElement(b, elementTTL, binary.BigEndian.AppendUint16(nil, l.TTL))
	if l.SystemName != "" {
		b = appendElement(b, elementSystemName, []byte(l.SystemName[:min(len(l.SystemName), maxID)]))
	}
	if l.ETS != nil {
		b = appendOrganization(b, subtypeETS, l.ETS.append(nil, false))
	}
	if l.Recommendation != nil {
		b = appendOrganization(b, subtypeRecommendation, l.Recommendation.append(nil, true))
	}
	if l.PFC != nil {
		b = appendOrganization(b, subtypePFC, l.PFC.append(nil))
	}
	if len(l.Applications) > 0 {
		b = appendOrganization(b, subtypeApplication, appendApplications(nil, l.Applications))
	}
	return appendElement(b, elementEnd, nil)
}

func appendElement(b []byte, kind uint8, value []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(kind)<<9|uint16(len(value)))
	return append(b, value...)
}

func appendID(b []byte, kind uint8, id ID) []byte {
	return appendElement(b, kind, append([]byte{id.Kind}, id.Value[:min(len(id.Value), maxID)]...))
}

func appendOrganization(b []byte, subtype uint8, value []byte) []byte {
	head := []byte{organization >> 16, organization >> 8 & 0xff, organization & 0xff, subtype}
	return appendElement(b, elementOrganization, append(head, value...))
}

// Parse reads a frame. It ignores elements that it does not know. The detail names what is wrong
// with the frame; its reason is None if nothing is. Malformed elements of DCBX do not exist
// for the receiver: the rest of the
// frame counts (802.1AB 9.2.7.7).
func (l *LLDP) Parse(b []byte) reason.Detail {
	*l = LLDP{}
	var h Header
	n := h.Parse(b)
	if n == 0 || h.Type != TypeLLDP {
		return malformed(TypeLLDP, uint64(h.Type))
	}
	l.Src = h.Src
	b = b[n:]
	for number := 1; ; number++ {
		if len(b) < elementHeader {
			return malformed(elementHeader, uint64(len(b)))
		}
		head := binary.BigEndian.Uint16(b)
		kind, size := uint8(head>>9), int(head&maxElement)
		if b = b[elementHeader:]; size > len(b) {
			return malformed(uint64(size), uint64(len(b)))
		}
		value := b[:size]
		b = b[size:]
		// 802.1AB 8.2: the first three elements are these, once and in this order.
		if number <= elementTTL && int(kind) != number || number > elementTTL && kind >= elementChassis && kind <= elementTTL {
			return malformed(uint64(number), uint64(kind))
		}
		if kind == elementEnd {
			return reason.Detail{}
		}
		if d := l.element(kind, value); d.Reason != reason.None {
			return d
		}
	}
}

func malformed(expected, found uint64) reason.Detail {
	return reason.Detail{Reason: reason.EthernetLLDP, Expected: expected, Found: found}
}

func (l *LLDP) element(kind uint8, value []byte) reason.Detail {
	switch kind {
	case elementChassis, elementPort:
		if len(value) < 2 || len(value) > 1+maxID {
			return malformed(2, uint64(len(value)))
		}
		id := ID{value[0], string(value[1:])}
		if kind == elementChassis {
			l.Chassis = id
		} else {
			l.Port = id
		}
	case elementTTL:
		if len(value) < 2 {
			return malformed(2, uint64(len(value)))
		}
		l.TTL = binary.BigEndian.Uint16(value)
	case elementSystemName:
		l.SystemName = string(value[:min(len(value), maxID)])
	case elementOrganization:
		if len(value) >= organizationLen && binary.BigEndian.Uint32(value)>>8 == organization {
			l.organization(value[3], value[organizationLen:])
		}
	}
	return reason.Detail{}
}

func (l *LLDP) organization(subtype uint8, value []byte) {
	switch subtype {
	case subtypeETS:
		if e := new(ETS); e.parse(value, false) {
			l.ETS = e
		}
	case subtypeRecommendation:
		if e := new(ETS); e.parse(value, true) {
			l.Recommendation = e
		}
	case subtypePFC:
		if p := new(PFC); p.parse(value) {
			l.PFC = p
		}
	case subtypeApplication:
		if all, ok := parseApplications(value); ok {
			l.Applications = all
		}
	}
}
