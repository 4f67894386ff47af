package sa

import (
	"encoding/binary"

	"softrdma/internal/wire/mad/smp"
)

// attribute returns the bytes of an attribute of subnet management in a record.
func attribute(b *[DataLen]byte, at int) *[smp.DataLen]byte { return (*[smp.DataLen]byte)(b[at:]) }

// Lengths of the records in bytes.
const (
	NodeRecordLen       = 108
	PortInfoRecordLen   = 68
	SLtoVLRecordLen     = 16
	SwitchInfoRecordLen = 24
	BlockRecordLen      = 72 // of the records of forwarding, partition, arbitration and GUID blocks
	SMInfoRecordLen     = 25
	LinkRecordLen       = 6
)

// A NodeRecord describes a node (IBTA 15.2.5.2).
type NodeRecord struct {
	LID         uint16
	Info        smp.NodeInfo
	Description smp.NodeDescription
}

// Parse reads the record.
func (r *NodeRecord) Parse(b *[DataLen]byte) {
	r.LID = binary.BigEndian.Uint16(b[0:])
	r.Info.Parse(attribute(b, 4))
	r.Description.Parse(attribute(b, 44))
}

// Put writes the record.
func (r *NodeRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	r.Info.Put(attribute(b, 4))
	r.Description.Put(attribute(b, 44))
}

// A PortInfoRecord is the PortInfo of a port (IBTA 15.2.5.3).
//
//	0 |           EndportLID          |    PortNum    |    Options    |
//	4 |                     PortInfo (64 bytes)                       |
type PortInfoRecord struct {
	LID     uint16
	Port    uint8
	Options uint8
	Info    smp.PortInfo
}

// Parse reads the record.
func (r *PortInfoRecord) Parse(b *[DataLen]byte) {
	r.LID, r.Port, r.Options = binary.BigEndian.Uint16(b[0:]), b[2], b[3]
	r.Info.Parse(attribute(b, 4))
}

// Put writes the record.
func (r *PortInfoRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	b[2], b[3] = r.Port, r.Options
	r.Info.Put(attribute(b, 4))
}

// A SLtoVLRecord is the lanes of the packets from one port to another (IBTA
// 15.2.5.4).
//
//	0 |              LID              | InputPortNum  | OutputPortNum |
//	4 |                          Reserved                             |
//	8 |                  SLtoVL mapping (8 bytes)                     |
type SLtoVLRecord struct {
	LID     uint16
	In, Out uint8
	Table   smp.SLtoVL
}

// Parse reads the record.
func (r *SLtoVLRecord) Parse(b *[DataLen]byte) {
	r.LID, r.In, r.Out = binary.BigEndian.Uint16(b[0:]), b[2], b[3]
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *SLtoVLRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	b[2], b[3] = r.In, r.Out
	r.Table.Put(attribute(b, 8))
}

// A SwitchInfoRecord is the SwitchInfo of a switch (IBTA 15.2.5.5).
//
//	0 |              LID              |           Reserved            |
//	4 |                    SwitchInfo (20 bytes)                      |
type SwitchInfoRecord struct {
	LID  uint16
	Info smp.SwitchInfo
}

// Parse reads the record.
func (r *SwitchInfoRecord) Parse(b *[DataLen]byte) {
	r.LID = binary.BigEndian.Uint16(b[0:])
	r.Info.Parse(attribute(b, 4))
}

// Put writes the record.
func (r *SwitchInfoRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	r.Info.Put(attribute(b, 4))
}

// A LinearForwardingRecord is a block of a linear forwarding table (IBTA
// 15.2.5.6).
//
//	0 |              LID              |           BlockNum            |
//	4 |                          Reserved                             |
//	8 |                 Forwarding block (64 bytes)                   |
type LinearForwardingRecord struct {
	LID, Block uint16
	Table      smp.LinearForwarding
}

// Parse reads the record.
func (r *LinearForwardingRecord) Parse(b *[DataLen]byte) {
	r.LID, r.Block = binary.BigEndian.Uint16(b[0:]), binary.BigEndian.Uint16(b[2:])
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *LinearForwardingRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	binary.BigEndian.PutUint16(b[2:], r.Block)
	r.Table.Put(attribute(b, 8))
}

// A MulticastForwardingRecord is a block of a multicast forwarding table (IBTA
// 15.2.5.8).
//
//	0 |              LID              |Positio|Resvd|    BlockNum     |
//	4 |                          Reserved                             |
//	8 |                 Forwarding block (64 bytes)                   |
type MulticastForwardingRecord struct {
	LID      uint16
	Position uint8  // 4 bits
	Block    uint16 // 9 bits
	Table    smp.MulticastForwarding
}

// Parse reads the record.
func (r *MulticastForwardingRecord) Parse(b *[DataLen]byte) {
	v := binary.BigEndian.Uint16(b[2:])
	r.LID, r.Position, r.Block = binary.BigEndian.Uint16(b[0:]), uint8(v>>12), v&0x1ff
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *MulticastForwardingRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	binary.BigEndian.PutUint16(b[2:], uint16(r.Position)<<12|r.Block&0x1ff)
	r.Table.Put(attribute(b, 8))
}

// A SMInfoRecord is the SMInfo of a manager (IBTA 15.2.5.9).
//
//	0 |              LID              |           Reserved            |
//	4 |                      SMInfo (21 bytes)                        |
type SMInfoRecord struct {
	LID  uint16
	Info smp.SMInfo
}

// Parse reads the record.
func (r *SMInfoRecord) Parse(b *[DataLen]byte) {
	r.LID = binary.BigEndian.Uint16(b[0:])
	r.Info.Parse(attribute(b, 4))
}

// Put writes the record.
func (r *SMInfoRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	r.Info.Put(attribute(b, 4))
}

// A PKeyTableRecord is a block of the partition table of a port (IBTA
// 15.2.5.11).
//
//	0 |              LID              |           BlockNum            |
//	4 |    PortNum    |                  Reserved                     |
//	8 |                  P_Key block (64 bytes)                       |
type PKeyTableRecord struct {
	LID, Block uint16
	Port       uint8
	Table      smp.PKeyTable
}

// Parse reads the record.
func (r *PKeyTableRecord) Parse(b *[DataLen]byte) {
	r.LID, r.Block, r.Port = binary.BigEndian.Uint16(b[0:]), binary.BigEndian.Uint16(b[2:]), b[4]
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *PKeyTableRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	binary.BigEndian.PutUint16(b[2:], r.Block)
	b[4] = r.Port
	r.Table.Put(attribute(b, 8))
}

// A VLArbitrationRecord is a half of an arbitration table of a port (IBTA
// 15.2.5.18).
//
//	0 |              LID              | OutputPortNum |   BlockNum    |
//	4 |                          Reserved                             |
//	8 |                Arbitration block (64 bytes)                   |
type VLArbitrationRecord struct {
	LID         uint16
	Port, Block uint8
	Table       smp.VLArbitration
}

// Parse reads the record.
func (r *VLArbitrationRecord) Parse(b *[DataLen]byte) {
	r.LID, r.Port, r.Block = binary.BigEndian.Uint16(b[0:]), b[2], b[3]
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *VLArbitrationRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	b[2], b[3] = r.Port, r.Block
	r.Table.Put(attribute(b, 8))
}

// A GUIDInfoRecord is a block of the GUIDs of a port (IBTA 15.2.5.19).
//
//	0 |              LID              |   BlockNum    |   Reserved    |
//	4 |                          Reserved                             |
//	8 |                   GUID block (64 bytes)                       |
type GUIDInfoRecord struct {
	LID   uint16
	Block uint8
	Table smp.GUIDInfo
}

// Parse reads the record.
func (r *GUIDInfoRecord) Parse(b *[DataLen]byte) {
	r.LID, r.Block = binary.BigEndian.Uint16(b[0:]), b[2]
	r.Table.Parse(attribute(b, 8))
}

// Put writes the record.
func (r *GUIDInfoRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.LID)
	b[2] = r.Block
	r.Table.Put(attribute(b, 8))
}

// A LinkRecord is a link, seen from one of its ends (IBTA 15.2.5.13).
//
//	0 |            FromLID            |   FromPort    |    ToPort     |
//	4 |             ToLID             |
type LinkRecord struct {
	FromLID          uint16
	FromPort, ToPort uint8
	ToLID            uint16
}

// Parse reads the record.
func (r *LinkRecord) Parse(b *[DataLen]byte) {
	r.FromLID, r.FromPort, r.ToPort, r.ToLID = binary.BigEndian.Uint16(b[0:]), b[2], b[3], binary.BigEndian.Uint16(b[4:])
}

// Put writes the record.
func (r *LinkRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[0:], r.FromLID)
	b[2], b[3] = r.FromPort, r.ToPort
	binary.BigEndian.PutUint16(b[4:], r.ToLID)
}
