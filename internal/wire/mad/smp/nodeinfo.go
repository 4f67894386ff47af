package smp

import (
	"encoding/binary"
	"fmt"
)

// A NodeType is the kind of a node.
type NodeType uint8

// The kinds of nodes.
const (
	Adapter NodeType = 1 // channel adapter
	Switch  NodeType = 2
	Router  NodeType = 3
)

// String returns the name of the kind.
func (t NodeType) String() string {
	switch t {
	case Adapter:
		return "channel adapter"
	case Switch:
		return "switch"
	case Router:
		return "router"
	}
	return fmt.Sprintf("node type %d (reserved)", uint8(t))
}

// NodeInfo describes a node, and the port that the question arrived at (IBTA
// 14.2.5.3).
//
//	 0 |  BaseVersion  | ClassVersion  |   NodeType    |   NumPorts    |
//	 4 |                    SystemImageGUID (8 bytes)                  |
//	12 |                       NodeGUID (8 bytes)                      |
//	20 |                       PortGUID (8 bytes)                      |
//	28 |         PartitionCap          |           DeviceID            |
//	32 |                           Revision                            |
//	36 | LocalPortNum  |                   VendorID                    |
type NodeInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	Type            NodeType
	NumPorts        uint8
	SystemImageGUID uint64
	NodeGUID        uint64
	PortGUID        uint64
	PartitionCap    uint16 // entries of the P_Key table: of an adapter's port, or of a switch's port 0
	DeviceID        uint16
	Revision        uint32
	LocalPort       uint8
	VendorID        uint32 // 24 bits
}

// NodeInfoLen is the length of a NodeInfo in bytes.
const NodeInfoLen = 40

// Parse reads the attribute.
func (n *NodeInfo) Parse(b *[DataLen]byte) {
	n.BaseVersion, n.ClassVersion, n.Type, n.NumPorts = b[0], b[1], NodeType(b[2]), b[3]
	n.SystemImageGUID = binary.BigEndian.Uint64(b[4:])
	n.NodeGUID = binary.BigEndian.Uint64(b[12:])
	n.PortGUID = binary.BigEndian.Uint64(b[20:])
	n.PartitionCap = binary.BigEndian.Uint16(b[28:])
	n.DeviceID = binary.BigEndian.Uint16(b[30:])
	n.Revision = binary.BigEndian.Uint32(b[32:])
	v := binary.BigEndian.Uint32(b[36:])
	n.LocalPort, n.VendorID = uint8(v>>24), v&0xffffff
}

// Put writes the attribute.
func (n *NodeInfo) Put(b *[DataLen]byte) {
	b[0], b[1], b[2], b[3] = n.BaseVersion, n.ClassVersion, uint8(n.Type), n.NumPorts
	binary.BigEndian.PutUint64(b[4:], n.SystemImageGUID)
	binary.BigEndian.PutUint64(b[12:], n.NodeGUID)
	binary.BigEndian.PutUint64(b[20:], n.PortGUID)
	binary.BigEndian.PutUint16(b[28:], n.PartitionCap)
	binary.BigEndian.PutUint16(b[30:], n.DeviceID)
	binary.BigEndian.PutUint32(b[32:], n.Revision)
	binary.BigEndian.PutUint32(b[36:], uint32(n.LocalPort)<<24|n.VendorID&0xffffff)
}
