// Package ethernet has the formats of Ethernet links (IEEE 802.3, 802.1Q, 802.1AB): headers
// with tags, frames of MAC control that pause a link, and LLDP with the elements by which the
// ends of a link agree on priorities.
//
// It parses and builds. It never decides what a frame means for a port. All lengths are without
// the check sequence of the frame, which hardware adds and checks.
package ethernet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// EtherTypes of a frame.
const (
	TypeIPv4    = 0x0800
	TypeARP     = 0x0806
	TypeVLAN    = 0x8100 // an IEEE 802.1Q tag follows
	TypeIPv6    = 0x86dd
	TypeControl = 0x8808 // MAC control (802.3 31A)
	TypeRoCE    = 0x8915 // RoCE v1 (annex A16)
	TypeLLDP    = 0x88cc // 802.1AB
)

const (
	// HeaderLen and TagLen are the lengths of the header without a tag and of an 802.1Q tag.
	HeaderLen = 14
	TagLen    = 4

	// MinLen is the length of the shortest frame (802.3 4A.2.3.2.4): 64 bytes with its check
	// sequence of CheckLen bytes.
	MinLen   = 60
	CheckLen = 4

	// GapLen is the number of byte times between two frames: preamble, start delimiter and the
	// interpacket gap (802.3 4.2.3.2.1, 4.4.2).
	GapLen = 20
)

// A MAC is an Ethernet address.
type MAC [6]byte

// String prints the address as 02:00:5e:10:00:01.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// GroupMAC returns the address that frames to a multicast group of IPv4 (RFC 1112 6.4) or IPv6
// (RFC 2464 7) go to.
func GroupMAC(group netip.Addr) MAC {
	b := group.As16()
	if group.Unmap().Is4() {
		return MAC{0x01, 0x00, 0x5e, b[13] & 0x7f, b[14], b[15]}
	}
	return MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// A Tag is the control information of an 802.1Q tag: priority, drop eligibility and
// VLAN identifier.
type Tag uint16

// NewTag makes a tag of a VLAN identifier (12 bits) and a priority (3 bits).
func NewTag(vlan uint16, priority uint8) Tag { return Tag(vlan&0xfff | uint16(priority&7)<<13) }

// VLAN is the identifier of the tag's VLAN. 0 means that the tag has only a priority.
func (t Tag) VLAN() uint16 { return uint16(t) & 0xfff }

// Priority is the 802.1p priority.
func (t Tag) Priority() uint8 { return uint8(t >> 13) }

// A Header is an Ethernet header with at most one 802.1Q tag.
type Header struct {
	Dst, Src MAC
	Tagged   bool
	Tag      Tag
	Type     uint16 // of what follows the tag
}

// Put writes the header to b and returns its length.
func (h *Header) Put(b []byte) int {
	copy(b, h.Dst[:])
	copy(b[6:], h.Src[:])
	n := 12
	if h.Tagged {
		binary.BigEndian.PutUint16(b[n:], TypeVLAN)
		binary.BigEndian.PutUint16(b[n+2:], uint16(h.Tag))
		n += TagLen
	}
	binary.BigEndian.PutUint16(b[n:], h.Type)
	return n + 2
}

// Parse reads the header at the start of b. It returns the header's length, 0 where
// b is too short.
func (h *Header) Parse(b []byte) int {
	if len(b) < HeaderLen {
		return 0
	}
	h.Dst, h.Src = MAC(b), MAC(b[6:])
	h.Tagged, h.Tag, h.Type = false, 0, binary.BigEndian.Uint16(b[12:])
	if h.Type != TypeVLAN {
		return HeaderLen
	}
	if len(b) < HeaderLen+TagLen {
		return 0
	}
	h.Tagged, h.Tag, h.Type = true, Tag(binary.BigEndian.Uint16(b[14:])), binary.BigEndian.Uint16(b[16:])
	return HeaderLen + TagLen
}
