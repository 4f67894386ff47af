package smp

import "encoding/binary"

// A GUIDInfo is a block of the GUIDs of a port (IBTA 14.2.5.5). The first GUID
// of block 0 is the one that the port was made with. The modifier is the block.
//
//	0 |                 GUID i (8 bytes), 8 times                     |
type GUIDInfo [8]uint64

// Parse reads the attribute.
func (g *GUIDInfo) Parse(b *[DataLen]byte) {
	for i := range g {
		g[i] = binary.BigEndian.Uint64(b[8*i:])
	}
}

// Put writes the attribute.
func (g *GUIDInfo) Put(b *[DataLen]byte) {
	for i, v := range g {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
}

// A PKeyTable is a block of the partition table of a port (IBTA 14.2.5.7). Bit
// 15 of an entry is full membership.
//
//	0 |           P_Key i             |          P_Key i+1            |
type PKeyTable [32]uint16

// FullMember is the bit of a P_Key that means full membership, and
// DefaultPKey the partition that every port begins with.
const (
	FullMember  = 0x8000
	DefaultPKey = 0xffff
)

// PKeyModifier returns the modifier of a block of a port's table. An adapter
// has port 0 here: the port that the packet arrives at.
func PKeyModifier(port, block int) uint32 { return uint32(port)<<16 | uint32(block)&0xffff }

// Parse reads the attribute.
func (t *PKeyTable) Parse(b *[DataLen]byte) { get16(t, b) }

// Put writes the attribute.
func (t *PKeyTable) Put(b *[DataLen]byte) { put16(t, b) }

// A SLtoVL is the virtual lane of each service level, for packets from one
// port of a switch to another (IBTA 14.2.5.8). Lane 15 discards.
//
//	0 |SL0toVL|SL1toVL|SL2toVL|SL3toVL|SL4toVL|SL5toVL|SL6toVL|SL7toVL|
//	4 |SL8toVL|SL9toVL|SL10...|SL11...|SL12...|SL13...|SL14...|SL15...|
type SLtoVL [16]uint8

// SLtoVLLen is the length of a SLtoVL in bytes.
const SLtoVLLen = 8

// SLtoVLModifier returns the modifier of the table from one port of a switch to
// another. The one of an adapter is 0.
func SLtoVLModifier(in, out int) uint32 { return uint32(in)&0xff<<8 | uint32(out)&0xff }

// Parse reads the attribute.
func (t *SLtoVL) Parse(b *[DataLen]byte) {
	for i := range SLtoVLLen {
		t[2*i], t[2*i+1] = b[i]>>4, b[i]&0xf
	}
}

// Put writes the attribute.
func (t *SLtoVL) Put(b *[DataLen]byte) {
	for i := range SLtoVLLen {
		b[i] = t[2*i]<<4 | t[2*i+1]&0xf
	}
}

// A Weight lets a virtual lane send units of 64 bytes in its turn. Weight 0
// skips the entry.
type Weight struct {
	VL     uint8 // 4 bits
	Weight uint8
}

// A VLArbitration is a half of one of the two arbitration tables of a port
// (IBTA 14.2.5.9).
//
//	0 | Resvd |  VL   |    Weight     | Resvd |  VL   |    Weight     |
type VLArbitration [32]Weight

// Halves of the arbitration tables, the upper 16 bits of the modifier.
const (
	ArbitrationLow       = 1 // entries 0 to 31
	ArbitrationLowUpper  = 2 // entries 32 to 63
	ArbitrationHigh      = 3
	ArbitrationHighUpper = 4
)

// ArbitrationModifier returns the modifier of a half of a port's table. An
// adapter has port 0 here: the port that the packet arrives at.
func ArbitrationModifier(half, port int) uint32 { return uint32(half)<<16 | uint32(port)&0xffff }

// Parse reads the attribute.
func (t *VLArbitration) Parse(b *[DataLen]byte) {
	for i := range t {
		t[i] = Weight{VL: b[2*i] & 0xf, Weight: b[2*i+1]}
	}
}

// Put writes the attribute.
func (t *VLArbitration) Put(b *[DataLen]byte) {
	for i, w := range t {
		b[2*i], b[2*i+1] = w.VL&0xf, w.Weight
	}
}

// A LinearForwarding is a block of the linear forwarding table: the port by
// which packets to each of 64 LIDs leave (IBTA 14.2.5.10). The modifier is the
// block.
//
//	0 |    Port i     |   Port i+1    |   Port i+2    |   Port i+3    |
type LinearForwarding [DataLen]uint8

// NoPort in a forwarding table discards the packets.
const NoPort = 255

// Parse reads the attribute.
func (t *LinearForwarding) Parse(b *[DataLen]byte) { *t = *b }

// Put writes the attribute.
func (t *LinearForwarding) Put(b *[DataLen]byte) { *b = *t }

// A MulticastForwarding is a block of the multicast forwarding table: a mask of
// 16 ports for each of 32 LIDs, from 0xc000 on (IBTA 14.2.5.12).
//
//	0 |         Port Mask i           |        Port Mask i+1          |
type MulticastForwarding [32]uint16

// MulticastModifier returns the modifier of a block of the multicast forwarding
// table. Position p holds ports 16p to 16p+15.
func MulticastModifier(position, block int) uint32 {
	return uint32(position)<<28 | uint32(block)&0x1ff
}

// Parse reads the attribute.
func (t *MulticastForwarding) Parse(b *[DataLen]byte) { get16((*PKeyTable)(t), b) }

// Put writes the attribute.
func (t *MulticastForwarding) Put(b *[DataLen]byte) { put16((*PKeyTable)(t), b) }

func get16(t *PKeyTable, b *[DataLen]byte) {
	for i := range t {
		t[i] = binary.BigEndian.Uint16(b[2*i:])
	}
}

func put16(t *PKeyTable, b *[DataLen]byte) {
	for i, v := range t {
		binary.BigEndian.PutUint16(b[2*i:], v)
	}
}
