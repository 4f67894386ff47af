package mad

import (
	"encoding/binary"

	"softrdma/internal/psn"
)

// REPPrivateLen is how many bytes of private data a REP carries.
const REPPrivateLen = 196

// A REP accepts a connection (IBTA 12.6.8).
//
//	 0 |                    Local Communication ID                     |
//	 4 |                    Remote Communication ID                    |
//	 8 |                          Local Q_Key                          |
//	12 |                   Local QPN                   | Vendor ID 1   |
//	16 |               Local EE Context                | Vendor ID 2   |
//	20 |                 Starting PSN                  | Vendor ID 3   |
//	24 | Resp. Resour. |  Init. Depth  |AckDelay |FA |F| RNR |S| Resv  |
//	28 |                         Local CA GUID                         |
//	32 |                                                               |
//	36 |      Private Data (196 bytes)                                 |
type REP struct {
	LocalID, RemoteID  uint32
	QKey               uint32
	QPN                uint32  // of the sender, 24 bits
	EECN               uint32  // 24 bits, RD only
	StartingPSN        psn.PSN // that the receiver's requests start with
	VendorID           uint32  // 24 bits
	ResponderResources uint8
	InitiatorDepth     uint8
	TargetAckDelay     uint8 // 5 bits: 4.096 µs times 2 to its power
	Failover           Failover
	FlowControl        bool
	RNRRetryCount      uint8 // 3 bits: of the receiver's queue pair
	SRQ                bool
	GUID               uint64 // of the sender's channel adapter
	Private            [REPPrivateLen]byte
}

// Parse reads the message.
func (m *REP) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.QKey = binary.BigEndian.Uint32(b[8:])
	m.QPN = get24(b[12:])
	m.EECN = get24(b[16:])
	m.StartingPSN = psn.PSN(get24(b[20:]))
	m.VendorID = uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23])
	m.ResponderResources, m.InitiatorDepth = b[24], b[25]
	m.TargetAckDelay = b[26] >> 3
	m.Failover = Failover(b[26] >> 1 & 3)
	m.FlowControl = b[26]&1 != 0
	m.RNRRetryCount, m.SRQ = b[27]>>5, b[27]&0x10 != 0
	m.GUID = binary.BigEndian.Uint64(b[28:])
	copy(m.Private[:], b[36:])
}

// Put writes the message after the header, which is already in d.
func (m *REP) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	binary.BigEndian.PutUint32(b[8:], m.QKey)
	put24(b[12:], m.QPN)
	put24(b[16:], m.EECN)
	put24(b[20:], uint32(m.StartingPSN))
	b[15], b[19], b[23] = byte(m.VendorID>>16), byte(m.VendorID>>8), byte(m.VendorID)
	b[24], b[25] = m.ResponderResources, m.InitiatorDepth
	b[26] = m.TargetAckDelay<<3 | byte(m.Failover&3)<<1 | bit(m.FlowControl)
	b[27] = m.RNRRetryCount<<5 | bit(m.SRQ)<<4
	binary.BigEndian.PutUint64(b[28:], m.GUID)
	copy(b[36:], m.Private[:])
}

// A Failover says in a REP whether the REQ's alternate path was accepted (IBTA
// 12.6.8).
type Failover uint8

// The answers.
const (
	FailoverAccepted     Failover = 0 // also if the REQ had no alternate path
	FailoverNotSupported Failover = 1
	FailoverRejected     Failover = 2
)
