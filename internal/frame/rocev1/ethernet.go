package rocev1

import (
	"encoding/binary"
	"fmt"
)

// EtherTypes of a frame.
const (
	EtherType = 0x8915 // RoCE v1 (annex A16)
	TypeVLAN  = 0x8100 // an IEEE 802.1Q tag follows
)

const (
	// EthernetLen and TagLen are the lengths of the Ethernet header without a tag and
	// of an 802.1Q tag.
	EthernetLen = 14
	TagLen      = 4
)

// A MAC is an Ethernet address.
type MAC [6]byte

// String prints the address as 02:00:5e:10:00:01.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// A Tag is the control information of an 802.1Q tag: priority, drop eligibility and
// VLAN identifier.
type Tag uint16

// NewTag makes a tag of a VLAN identifier (12 bits) and a priority (3 bits).
func NewTag(vlan uint16, priority uint8) Tag { return Tag(vlan&0xfff | uint16(priority&7)<<13) }

// VLAN is the identifier of the tag's VLAN. 0 means that the tag has a priority
// alone.
func (t Tag) VLAN() uint16 { return uint16(t) & 0xfff }

// Priority is the 802.1p priority.
func (t Tag) Priority() uint8 { return uint8(t >> 13) }

// An Ethernet is an Ethernet header with at most one 802.1Q tag.
type Ethernet struct {
	Dst, Src MAC
	Tagged   bool
	Tag      Tag
	Type     uint16 // of what follows the tag
}

// Put writes the header to b and returns its length.
func (h *Ethernet) Put(b []byte) int {
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
func (h *Ethernet) Parse(b []byte) int {
	if len(b) < EthernetLen {
		return 0
	}
	h.Dst, h.Src = MAC(b), MAC(b[6:])
	h.Tagged, h.Tag, h.Type = false, 0, binary.BigEndian.Uint16(b[12:])
	if h.Type != TypeVLAN {
		return EthernetLen
	}
	if len(b) < EthernetLen+TagLen {
		return 0
	}
	h.Tagged, h.Tag, h.Type = true, Tag(binary.BigEndian.Uint16(b[14:])), binary.BigEndian.Uint16(b[16:])
	return EthernetLen + TagLen
}
