package smp

import "bytes"

// A NodeDescription is the name of a node in UTF-8, filled up with zeros (IBTA
// 14.2.5.2).
//
//	0 |                     NodeString (64 bytes)                     |
type NodeDescription [DataLen]byte

// NewNodeDescription returns the first 64 bytes of a name.
func NewNodeDescription(name string) (d NodeDescription) {
	copy(d[:], name)
	return d
}

// String returns the name up to the first zero.
func (d *NodeDescription) String() string {
	name, _, _ := bytes.Cut(d[:], []byte{0})
	return string(name)
}

// Parse reads the attribute.
func (d *NodeDescription) Parse(b *[DataLen]byte) { *d = *b }

// Put writes the attribute.
func (d *NodeDescription) Put(b *[DataLen]byte) { *b = *d }
