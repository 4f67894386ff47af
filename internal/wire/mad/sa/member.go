package sa

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// MCMemberRecordLen and ServiceRecordLen are the lengths of the records in bytes.
const (
	MCMemberRecordLen = 52
	ServiceRecordLen  = 176
)

// Bits of JoinState (IBTA 15.2.5.17).
const (
	JoinFull         = 1
	JoinNon          = 2
	JoinSendOnlyNon  = 4
	JoinSendOnlyFull = 8
)

// A MCMemberRecord is a multicast group, or the membership of a port in it (IBTA
// 15.2.5.17).
//
//	 0 |                       MGID (16 bytes)                         |
//	16 |                     PortGID (16 bytes)                        |
//	32 |                            Q_Key                              |
//	36 |             MLID              |MtS|    MTU    |    TClass     |
//	40 |             P_Key             |RtS|   Rate    |LiS|PktLifeTime|
//	44 |  SL   |             FlowLabel                 |   HopLimit    |
//	48 | Scope |JoinSta|P|                 Reserved                    |
type MCMemberRecord struct {
	MGID, PortGID mad.GID
	QKey          uint32
	MLID          uint16
	MTU           Limit
	TrafficClass  uint8
	PKey          uint16
	Rate          Limit
	LifeTime      Limit
	SL            uint8  // 4 bits
	FlowLabel     uint32 // 20 bits
	HopLimit      uint8
	Scope         uint8 // 4 bits
	JoinState     uint8 // 4 bits
	ProxyJoin     bool
}

// Parse reads the record.
func (r *MCMemberRecord) Parse(b *[DataLen]byte) {
	copy(r.MGID[:], b[0:])
	copy(r.PortGID[:], b[16:])
	r.QKey, r.MLID = binary.BigEndian.Uint32(b[32:]), binary.BigEndian.Uint16(b[36:])
	r.MTU, r.TrafficClass = limit(b[38]), b[39]
	r.PKey, r.Rate, r.LifeTime = binary.BigEndian.Uint16(b[40:]), limit(b[42]), limit(b[43])
	v := binary.BigEndian.Uint32(b[44:])
	r.SL, r.FlowLabel, r.HopLimit = uint8(v>>28), v>>8&0xfffff, uint8(v)
	r.Scope, r.JoinState, r.ProxyJoin = b[48]>>4, b[48]&0xf, b[49]&0x80 != 0
}

// Put writes the record.
func (r *MCMemberRecord) Put(b *[DataLen]byte) {
	copy(b[0:], r.MGID[:])
	copy(b[16:], r.PortGID[:])
	binary.BigEndian.PutUint32(b[32:], r.QKey)
	binary.BigEndian.PutUint16(b[36:], r.MLID)
	b[38], b[39] = r.MTU.byte(), r.TrafficClass
	binary.BigEndian.PutUint16(b[40:], r.PKey)
	b[42], b[43] = r.Rate.byte(), r.LifeTime.byte()
	binary.BigEndian.PutUint32(b[44:], uint32(r.SL&0xf)<<28|r.FlowLabel&0xfffff<<8|uint32(r.HopLimit))
	b[48], b[49] = r.Scope<<4|r.JoinState&0xf, bit(r.ProxyJoin, 7)
}

// A ServiceRecord is a service that a port announces (IBTA 15.2.5.14).
//
//	  0 |                     ServiceID (8 bytes)                       |
//	  8 |                     ServiceGID (16 bytes)                     |
//	 24 |         ServiceP_Key          |           Reserved            |
//	 28 |                         ServiceLease                          |
//	 32 |                     ServiceKey (16 bytes)                     |
//	 48 |                     ServiceName (64 bytes)                    |
//	112 |                     ServiceData (64 bytes)                    |
type ServiceRecord struct {
	ServiceID uint64
	GID       mad.GID
	PKey      uint16
	Lease     uint32 // seconds; all ones never end
	Key       [16]byte
	Name      [64]byte
	Data      [64]byte // 16 fields of 8 bits, 8 of 16, 4 of 32 and 2 of 64
}

// Parse reads the record.
func (r *ServiceRecord) Parse(b *[DataLen]byte) {
	r.ServiceID = binary.BigEndian.Uint64(b[0:])
	copy(r.GID[:], b[8:])
	r.PKey, r.Lease = binary.BigEndian.Uint16(b[24:]), binary.BigEndian.Uint32(b[28:])
	copy(r.Key[:], b[32:])
	copy(r.Name[:], b[48:])
	copy(r.Data[:], b[112:])
}

// Put writes the record.
func (r *ServiceRecord) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[0:], r.ServiceID)
	copy(b[8:], r.GID[:])
	binary.BigEndian.PutUint16(b[24:], r.PKey)
	binary.BigEndian.PutUint32(b[28:], r.Lease)
	copy(b[32:], r.Key[:])
	copy(b[48:], r.Name[:])
	copy(b[112:], r.Data[:])
}
