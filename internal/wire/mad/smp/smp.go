// Package smp has the formats of subnet management packets: the two headers,
// routed by LID and directed (IBTA 14.2.1), and each attribute (IBTA 14.2.5).
// An attribute is a fixed-size comparable value in a separate file.
//
// Every field lies inside the 64 bytes of the data field, so Parse cannot fail
// and keeps the values found. Put writes the fields, and leaves the bits
// between them as they are. The subnet management agent and the subnet manager
// decide what values mean, and which they refuse.
//
// It does no I/O, keeps no state and never panics on any input.
package smp

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// ClassVersion is the version of the subnet management classes (IBTA 14.2.1.1).
const ClassVersion = 1

// DataLen is the length of an attribute, MaxHops that of the longest directed
// route (IBTA 14.2.1).
const (
	DataLen = 64
	MaxHops = 63
)

// PermissiveLID is the LID at which any port accepts subnet management packets
// (IBTA 4.1.3).
const PermissiveLID = 0xffff

// The queue pair of subnet management and its virtual lane (IBTA 13.5.1).
const (
	QPN = 0
	VL  = 15
)

// A Packet is a subnet management packet. Packets routed by LID (IBTA
// 14.2.1.1) have neither direction, hops, LIDs nor paths. The directed route
// (IBTA 14.2.1.2) replaces the bytes marked with D:
//
//	  0 | Base Version  |  Mgmt Class   | Class Version |R|   Method    |
//	  4 |D|           Status            | D Hop Pointer |  D Hop Count  |
//	  8 |                    Transaction ID (8 bytes)                   |
//	 16 |         Attribute ID          |           Reserved            |
//	 20 |                       Attribute Modifier                      |
//	 24 |                         M_Key (8 bytes)                       |
//	 32 |           D DrSLID            |           D DrDLID            |
//	 36 |                      Reserved (28 bytes)                      |
//	 64 |                         Data (64 bytes)                       |
//	128 |                    D Initial Path (64 bytes)                  |
//	192 |                    D Return Path (64 bytes)                   |
type Packet struct {
	BaseVersion  uint8
	Class        uint8
	ClassVersion uint8
	Method       uint8
	Returning    bool   // direction bit of a directed route
	Status       uint16 // 15 bits of a directed route, 16 of a packet routed by LID
	HopPointer   uint8
	HopCount     uint8
	TID          uint64
	Attribute    mad.AttributeID
	Modifier     uint32
	MKey         uint64
	DrSLID       uint16
	DrDLID       uint16
	Data         [DataLen]byte
	Initial      [MaxHops + 1]uint8 // port by which hop i leaves, from 1 on
	Return       [MaxHops + 1]uint8 // port by which hop i arrived, from 1 on
}

// Directed reports whether the packet has a directed route.
func (p *Packet) Directed() bool { return p.Class == mad.ClassDirected }

// BeginsByLID reports whether a request with a directed route goes by LID to the node where
// the directed part begins, and has not arrived there (IBTA 14.2.2).
func (p *Packet) BeginsByLID() bool {
	return p.Directed() && !p.Returning && p.DrSLID != PermissiveLID && p.HopPointer == 0
}

// Parse reads the packet.
func (p *Packet) Parse(b *[mad.Len]byte) {
	p.BaseVersion, p.Class, p.ClassVersion, p.Method = b[0], b[1], b[2], b[3]
	p.Status = binary.BigEndian.Uint16(b[4:])
	p.TID = binary.BigEndian.Uint64(b[8:])
	p.Attribute = mad.AttributeID(binary.BigEndian.Uint16(b[16:]))
	p.Modifier = binary.BigEndian.Uint32(b[20:])
	p.MKey = binary.BigEndian.Uint64(b[24:])
	copy(p.Data[:], b[64:])
	p.Returning, p.HopPointer, p.HopCount, p.DrSLID, p.DrDLID = false, 0, 0, 0, 0
	if !p.Directed() {
		clear(p.Initial[:])
		clear(p.Return[:])
		return
	}
	p.Returning, p.Status = p.Status>>15 != 0, p.Status&0x7fff
	p.HopPointer, p.HopCount = b[6], b[7]
	p.DrSLID = binary.BigEndian.Uint16(b[32:])
	p.DrDLID = binary.BigEndian.Uint16(b[34:])
	copy(p.Initial[:], b[128:])
	copy(p.Return[:], b[192:])
}

// Put writes the packet, with reserved fields of zero.
func (p *Packet) Put(b *[mad.Len]byte) {
	clear(b[:])
	b[0], b[1], b[2], b[3] = p.BaseVersion, p.Class, p.ClassVersion, p.Method
	binary.BigEndian.PutUint16(b[4:], p.Status)
	binary.BigEndian.PutUint64(b[8:], p.TID)
	binary.BigEndian.PutUint16(b[16:], uint16(p.Attribute))
	binary.BigEndian.PutUint32(b[20:], p.Modifier)
	binary.BigEndian.PutUint64(b[24:], p.MKey)
	copy(b[64:], p.Data[:])
	if !p.Directed() {
		return
	}
	b[4] = b[4]&0x7f | bit(p.Returning, 7)
	b[6], b[7] = p.HopPointer, p.HopCount
	binary.BigEndian.PutUint16(b[32:], p.DrSLID)
	binary.BigEndian.PutUint16(b[34:], p.DrDLID)
	copy(b[128:], p.Initial[:])
	copy(b[192:], p.Return[:])
}

// NewRouted returns a packet that is routed by LID.
func NewRouted(method uint8, a mad.AttributeID, modifier uint32, tid, mkey uint64) Packet {
	return Packet{BaseVersion: mad.BaseVersion, Class: mad.ClassLIDRouted, ClassVersion: ClassVersion,
		Method: method, Attribute: a, Modifier: modifier, TID: tid, MKey: mkey}
}

// NewDirected returns a packet along a route from the sender to the
// destination without parts routed by LID. Each element of path, of at most
// MaxHops, is the port by which the packet leaves a node, the sender first. An
// empty path leads to the sender itself.
func NewDirected(method uint8, a mad.AttributeID, modifier uint32, tid, mkey uint64, path []uint8) Packet {
	p := NewRouted(method, a, modifier, tid, mkey)
	p.Class, p.DrSLID, p.DrDLID = mad.ClassDirected, PermissiveLID, PermissiveLID
	p.HopCount = uint8(copy(p.Initial[1:], path))
	return p
}

// Attributes (IBTA 14.2.5).
const (
	AttrNodeDescription     mad.AttributeID = 0x0010
	AttrNodeInfo            mad.AttributeID = 0x0011
	AttrSwitchInfo          mad.AttributeID = 0x0012
	AttrGUIDInfo            mad.AttributeID = 0x0014
	AttrPortInfo            mad.AttributeID = 0x0015
	AttrPKeyTable           mad.AttributeID = 0x0016
	AttrSLtoVL              mad.AttributeID = 0x0017
	AttrVLArbitration       mad.AttributeID = 0x0018
	AttrLinearForwarding    mad.AttributeID = 0x0019
	AttrRandomForwarding    mad.AttributeID = 0x001a
	AttrMulticastForwarding mad.AttributeID = 0x001b
	AttrSMInfo              mad.AttributeID = 0x0020
	AttrVendorDiag          mad.AttributeID = 0x0030
	AttrLedInfo             mad.AttributeID = 0x0031
	AttrPortInfoExtended    mad.AttributeID = 0x0033
)

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}
