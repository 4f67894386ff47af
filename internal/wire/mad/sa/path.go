package sa

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// A Selector says how a query compares an MTU, a rate or a lifetime (IBTA
// 15.2.5.16).
type Selector uint8

// The selectors.
const (
	Greater Selector = 0
	Less    Selector = 1
	Exactly Selector = 2
	Best    Selector = 3 // the largest MTU or rate, the smallest lifetime
)

// A Limit is a selector of 2 bits with a value of 6 bits.
type Limit struct {
	Selector Selector
	Value    uint8
}

// Allows reports whether a value satisfies the limit. Best allows all: the
// administrator chooses among the records.
func (l Limit) Allows(v uint8) bool {
	switch l.Selector {
	case Greater:
		return v > l.Value
	case Less:
		return v < l.Value
	case Exactly:
		return v == l.Value
	}
	return true
}

func limit(b byte) Limit   { return Limit{Selector(b >> 6), b & 0x3f} }
func (l Limit) byte() byte { return byte(l.Selector)<<6 | l.Value&0x3f }

// Lengths of the records in bytes.
const (
	PathRecordLen      = 64
	MultiPathRecordLen = 24 + 16*MultiPathGIDs
	TraceRecordLen     = 46
)

// A PathRecord is a path between two ports (IBTA 15.2.5.16).
//
//	 0 |                     ServiceID (8 bytes)                       |
//	 8 |                       DGID (16 bytes)                         |
//	24 |                       SGID (16 bytes)                         |
//	40 |             DLID              |             SLID              |
//	44 |R|Resvd|             FlowLabel                 |   HopLimit    |
//	48 |    TClass     |R|NumbPath     |             P_Key             |
//	52 |      QoSClass         |  SL   |MtS|    MTU    |RtS|   Rate    |
//	56 |LiS|PktLifeTime|  Preference   |      Reserved (6 bytes)       |
type PathRecord struct {
	ServiceID    uint64
	DGID, SGID   mad.GID
	DLID, SLID   uint16
	RawTraffic   bool
	FlowLabel    uint32 // 20 bits
	HopLimit     uint8
	TrafficClass uint8
	Reversible   bool
	NumPaths     uint8 // 7 bits
	PKey         uint16
	QoSClass     uint16 // 12 bits
	SL           uint8  // 4 bits
	MTU          Limit
	Rate         Limit
	LifeTime     Limit
	Preference   uint8
}

// Parse reads the record.
func (r *PathRecord) Parse(b *[DataLen]byte) {
	r.ServiceID = binary.BigEndian.Uint64(b[0:])
	copy(r.DGID[:], b[8:])
	copy(r.SGID[:], b[24:])
	r.DLID, r.SLID = binary.BigEndian.Uint16(b[40:]), binary.BigEndian.Uint16(b[42:])
	v := binary.BigEndian.Uint32(b[44:])
	r.RawTraffic, r.FlowLabel, r.HopLimit = v>>31 != 0, v>>8&0xfffff, uint8(v)
	r.TrafficClass, r.Reversible, r.NumPaths = b[48], b[49]&0x80 != 0, b[49]&0x7f
	r.PKey = binary.BigEndian.Uint16(b[50:])
	q := binary.BigEndian.Uint16(b[52:])
	r.QoSClass, r.SL = q>>4, uint8(q&0xf)
	r.MTU, r.Rate, r.LifeTime, r.Preference = limit(b[54]), limit(b[55]), limit(b[56]), b[57]
}

// Put writes the record.
func (r *PathRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[0:], r.ServiceID)
	copy(b[8:], r.DGID[:])
	copy(b[24:], r.SGID[:])
	binary.BigEndian.PutUint16(b[40:], r.DLID)
	binary.BigEndian.PutUint16(b[42:], r.SLID)
	binary.BigEndian.PutUint32(b[44:], uint32(bit(r.RawTraffic, 7))<<24|r.FlowLabel&0xfffff<<8|uint32(r.HopLimit))
	b[48], b[49] = r.TrafficClass, bit(r.Reversible, 7)|r.NumPaths&0x7f
	binary.BigEndian.PutUint16(b[50:], r.PKey)
	binary.BigEndian.PutUint16(b[52:], r.QoSClass<<4|uint16(r.SL&0xf))
	b[54], b[55], b[56], b[57] = r.MTU.byte(), r.Rate.byte(), r.LifeTime.byte(), r.Preference
}

// MultiPathGIDs is how many GIDs a query of one packet has room for.
const MultiPathGIDs = 11

// A MultiPathRecord asks for paths between sets of ports (IBTA 15.2.5.20). The
// source GIDs come first.
//
//	 0 |R|Resvd|             FlowLabel                 |   HopLimit    |
//	 4 |    TClass     |R|NumbPath     |             P_Key             |
//	 8 |      QoSClass         |  SL   |MtS|    MTU    |RtS|   Rate    |
//	12 |LiS|PktLifeTime|  ServiceID 8  |Ind|  Reserved |   SGIDCount   |
//	16 |   DGIDCount   |              ServiceID 56 (7 bytes)           |
//	24 |                      GID i (16 bytes)                         |
type MultiPathRecord struct {
	RawTraffic   bool
	FlowLabel    uint32 // 20 bits
	HopLimit     uint8
	TrafficClass uint8
	Reversible   bool
	NumPaths     uint8 // 7 bits
	PKey         uint16
	QoSClass     uint16 // 12 bits
	SL           uint8  // 4 bits
	MTU          Limit
	Rate         Limit
	LifeTime     Limit
	ServiceID    uint64
	Independence uint8 // 2 bits
	Sources      uint8
	Destinations uint8
	GIDs         [MultiPathGIDs]mad.GID
}

// Parse reads the record.
func (r *MultiPathRecord) Parse(b *[DataLen]byte) {
	v := binary.BigEndian.Uint32(b[0:])
	r.RawTraffic, r.FlowLabel, r.HopLimit = v>>31 != 0, v>>8&0xfffff, uint8(v)
	r.TrafficClass, r.Reversible, r.NumPaths = b[4], b[5]&0x80 != 0, b[5]&0x7f
	r.PKey = binary.BigEndian.Uint16(b[6:])
	q := binary.BigEndian.Uint16(b[8:])
	r.QoSClass, r.SL = q>>4, uint8(q&0xf)
	r.MTU, r.Rate, r.LifeTime = limit(b[10]), limit(b[11]), limit(b[12])
	r.ServiceID = uint64(b[13])<<56 | binary.BigEndian.Uint64(b[16:])&(1<<56-1)
	r.Independence, r.Sources, r.Destinations = b[14]>>6, b[15], b[16]
	for i := range r.GIDs {
		copy(r.GIDs[i][:], b[24+16*i:])
	}
}

// Put writes the record.
func (r *MultiPathRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint32(b[0:], uint32(bit(r.RawTraffic, 7))<<24|r.FlowLabel&0xfffff<<8|uint32(r.HopLimit))
	b[4], b[5] = r.TrafficClass, bit(r.Reversible, 7)|r.NumPaths&0x7f
	binary.BigEndian.PutUint16(b[6:], r.PKey)
	binary.BigEndian.PutUint16(b[8:], r.QoSClass<<4|uint16(r.SL&0xf))
	b[10], b[11], b[12] = r.MTU.byte(), r.Rate.byte(), r.LifeTime.byte()
	b[13], b[14], b[15] = uint8(r.ServiceID>>56), r.Independence<<6, r.Sources
	binary.BigEndian.PutUint64(b[16:], uint64(r.Destinations)<<56|r.ServiceID&(1<<56-1))
	for i := range r.GIDs {
		copy(b[24+16*i:], r.GIDs[i][:])
	}
}

// A TraceRecord is a node on a path (IBTA 15.2.5.15).
//
//	 0 |                     GIDPrefix (8 bytes)                       |
//	 8 |         IDGeneration          |   Reserved    |   NodeType    |
//	12 |                       NodeID (8 bytes)                        |
//	20 |                     ChassisID (8 bytes)                       |
//	28 |                    EntryPortID (8 bytes)                      |
//	36 |                     ExitPortID (8 bytes)                      |
//	44 |   EntryPort   |   ExitPort    |
type TraceRecord struct {
	GIDPrefix               uint64
	IDGeneration            uint16
	NodeType                uint8
	NodeID, ChassisID       uint64
	EntryPortID, ExitPortID uint64
	EntryPort, ExitPort     uint8
}

// Parse reads the record.
func (r *TraceRecord) Parse(b *[DataLen]byte) {
	r.GIDPrefix, r.IDGeneration, r.NodeType = binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint16(b[8:]), b[11]
	r.NodeID, r.ChassisID = binary.BigEndian.Uint64(b[12:]), binary.BigEndian.Uint64(b[20:])
	r.EntryPortID, r.ExitPortID = binary.BigEndian.Uint64(b[28:]), binary.BigEndian.Uint64(b[36:])
	r.EntryPort, r.ExitPort = b[44], b[45]
}

// Put writes the record.
func (r *TraceRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[0:], r.GIDPrefix)
	binary.BigEndian.PutUint16(b[8:], r.IDGeneration)
	b[11] = r.NodeType
	binary.BigEndian.PutUint64(b[12:], r.NodeID)
	binary.BigEndian.PutUint64(b[20:], r.ChassisID)
	binary.BigEndian.PutUint64(b[28:], r.EntryPortID)
	binary.BigEndian.PutUint64(b[36:], r.ExitPortID)
	b[44], b[45] = r.EntryPort, r.ExitPort
}
