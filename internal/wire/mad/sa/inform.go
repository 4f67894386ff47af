package sa

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// InformInfoLen and InformInfoRecordLen are the lengths in bytes.
const (
	InformInfoLen       = 36
	InformInfoRecordLen = 24 + InformInfoLen
)

// Values of an InformInfo that stand for all (IBTA 13.4.8.3).
const (
	AllLIDs      = 0xffff // as LIDBegin
	AllTypes     = 0xffff
	AllNumbers   = 0xffff
	AllProducers = 0xffffff
)

// An InformInfo subscribes to notices, or ends a subscription (IBTA 13.4.8.3).
//
//	 0 |                        GID (16 bytes)                         |
//	16 |        LIDRangeBegin          |         LIDRangeEnd           |
//	20 |           Reserved            |   IsGeneric   |   Subscribe   |
//	24 |             Type              |     TrapNumber or DeviceID    |
//	28 |                    QPN                        |Resvd|RespTime |
//	32 |   Reserved    |           ProducerType or VendorID            |
type InformInfo struct {
	GID                mad.GID
	LIDBegin, LIDEnd   uint16
	Generic, Subscribe uint8 // 1 or 0
	Type               uint16
	Number             uint16
	QPN                uint32 // 24 bits
	RespTime           uint8  // 5 bits
	Producer           uint32 // 24 bits
}

// Parse reads the attribute.
func (i *InformInfo) Parse(b *[DataLen]byte) { i.parse(b[:]) }

// Put writes the attribute.
func (i *InformInfo) Put(b *[DataLen]byte) { i.put(b[:]) }

func (i *InformInfo) parse(b []byte) {
	copy(i.GID[:], b)
	i.LIDBegin, i.LIDEnd = binary.BigEndian.Uint16(b[16:]), binary.BigEndian.Uint16(b[18:])
	i.Generic, i.Subscribe = b[22], b[23]
	i.Type, i.Number = binary.BigEndian.Uint16(b[24:]), binary.BigEndian.Uint16(b[26:])
	v := binary.BigEndian.Uint32(b[28:])
	i.QPN, i.RespTime = v>>8, uint8(v&0x1f)
	i.Producer = binary.BigEndian.Uint32(b[32:]) & 0xffffff
}

func (i *InformInfo) put(b []byte) {
	copy(b, i.GID[:])
	binary.BigEndian.PutUint16(b[16:], i.LIDBegin)
	binary.BigEndian.PutUint16(b[18:], i.LIDEnd)
	b[22], b[23] = i.Generic, i.Subscribe
	binary.BigEndian.PutUint16(b[24:], i.Type)
	binary.BigEndian.PutUint16(b[26:], i.Number)
	binary.BigEndian.PutUint32(b[28:], i.QPN<<8|uint32(i.RespTime&0x1f))
	binary.BigEndian.PutUint32(b[32:], i.Producer&0xffffff)
}

// Wants reports whether a notice is one of those subscribed to. A GID other than
// zero takes the place of the LIDs.
func (i *InformInfo) Wants(n *mad.Notice) bool {
	switch {
	case (i.Generic != 0) != n.Generic,
		i.Type != AllTypes && i.Type != uint16(n.Type),
		i.Number != AllNumbers && i.Number != n.Number,
		i.Producer != AllProducers && i.Producer != n.Producer:
		return false
	case i.GID != mad.GID{}:
		return i.GID == n.IssuerGID
	}
	end := max(i.LIDEnd, i.LIDBegin)
	return i.LIDBegin == AllLIDs || n.IssuerLID >= i.LIDBegin && n.IssuerLID <= end
}

// An InformInfoRecord is a subscription (IBTA 15.2.5.12).
//
//	 0 |                   SubscriberGID (16 bytes)                    |
//	16 |             Enum              |      Reserved (6 bytes)       |
//	24 |                   InformInfo (36 bytes)                       |
type InformInfoRecord struct {
	Subscriber mad.GID
	Enum       uint16
	Info       InformInfo
}

// Parse reads the record.
func (r *InformInfoRecord) Parse(b *[DataLen]byte) {
	copy(r.Subscriber[:], b[0:])
	r.Enum = binary.BigEndian.Uint16(b[16:])
	r.Info.parse(b[24:])
}

// Put writes the record.
func (r *InformInfoRecord) Put(b *[DataLen]byte) {
	copy(b[0:], r.Subscriber[:])
	binary.BigEndian.PutUint16(b[16:], r.Enum)
	r.Info.put(b[24:])
}
