package mad

import (
	"encoding/binary"

	"softrdma/internal/psn"
)

// REQPrivateLen is how many bytes of private data a REQ carries.
const REQPrivateLen = 92

// PermissiveLID is the LID of a path that has none, as in RoCE (annex A16 and
// IBTA 4.1.3).
const PermissiveLID = 0xffff

// A REQ asks for a connection (IBTA 12.6.5).
//
//	  0 |                    Local Communication ID                     |
//	  4 |   Reserved    |                   Vendor ID                   |
//	  8 |                           ServiceID                           |
//	 12 |                                                               |
//	 16 |                         Local CA GUID                         |
//	 20 |                                                               |
//	 24 |                    Reserved (Announcement)                    |
//	 28 |                          Local Q_Key                          |
//	 32 |                   Local QPN                   | Resp. Resour. |
//	 36 |                  Local EECN                   | Init. Depth   |
//	 40 |                  Remote EECN                  |RemTimeout|TT|F|
//	 44 |                 Starting PSN                  |LocTimeout| RC |
//	 48 |             P_Key             |  MTU  |D| RNR |  CMR  |S| XTT |
//	 52 |       Primary path (44 bytes, see Path)                       |
//	 96 |       Alternate path (44 bytes)                               |
//	140 |       Private Data (92 bytes)                                 |
type REQ struct {
	LocalID      uint32 // of the sender
	VendorID     uint32 // 24 bits
	Service      ServiceID
	GUID         uint64 // of the sender's channel adapter
	Announcement Announcement
	QKey         uint32
	QPN          uint32 // of the sender, 24 bits
	// ResponderResources is how many READs and ATOMICs the sender can serve at
	// a time, InitiatorDepth how many it wants to have in flight.
	ResponderResources uint8
	InitiatorDepth     uint8
	LocalEECN          uint32 // 24 bits, RD only
	RemoteEECN         uint32 // 24 bits, RD only
	// RemoteResponseTimeout is the time within which the sender expects answers,
	// LocalResponseTimeout that within which it answers itself: fields of 5 bits, in
	// 4.096 µs times 2 to their power.
	RemoteResponseTimeout uint8
	LocalResponseTimeout  uint8
	Transport             TransportType
	ExtendedTransport     uint8 // 3 bits, valid if Transport is TransportExtended
	FlowControl           bool
	StartingPSN           psn.PSN // that the receiver's requests start with
	RetryCount            uint8   // 3 bits: of the receiver's queue pair
	RNRRetryCount         uint8   // 3 bits: of the receiver's queue pair
	PKey                  uint16
	MTU                   MTU
	RDCExists             bool
	MaxCMRetries          uint8 // 4 bits
	SRQ                   bool
	Primary               Path
	Alternate             Path
	Private               [REQPrivateLen]byte
}

// Parse reads the message.
func (m *REQ) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.VendorID = get24(b[5:])
	m.Service = ServiceID(binary.BigEndian.Uint64(b[8:]))
	m.GUID = binary.BigEndian.Uint64(b[16:])
	m.Announcement = Announcement(binary.BigEndian.Uint32(b[24:]))
	m.QKey = binary.BigEndian.Uint32(b[28:])
	m.QPN, m.ResponderResources = get24(b[32:]), b[35]
	m.LocalEECN, m.InitiatorDepth = get24(b[36:]), b[39]
	m.RemoteEECN = get24(b[40:])
	m.RemoteResponseTimeout = b[43] >> 3
	m.Transport = TransportType(b[43] >> 1 & 3)
	m.FlowControl = b[43]&1 != 0
	m.StartingPSN = psn.PSN(get24(b[44:]))
	m.LocalResponseTimeout, m.RetryCount = b[47]>>3, b[47]&7
	m.PKey = binary.BigEndian.Uint16(b[48:])
	m.MTU, m.RDCExists, m.RNRRetryCount = MTU(b[50]>>4), b[50]&8 != 0, b[50]&7
	m.MaxCMRetries, m.SRQ, m.ExtendedTransport = b[51]>>4, b[51]&8 != 0, b[51]&7
	m.Primary.parse(b[52:])
	m.Alternate.parse(b[96:])
	copy(m.Private[:], b[140:])
}

// Put writes the message after the header, which is already in d.
func (m *REQ) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.VendorID&0xffffff)
	binary.BigEndian.PutUint64(b[8:], uint64(m.Service))
	binary.BigEndian.PutUint64(b[16:], m.GUID)
	binary.BigEndian.PutUint32(b[24:], uint32(m.Announcement))
	binary.BigEndian.PutUint32(b[28:], m.QKey)
	put24(b[32:], m.QPN)
	b[35] = m.ResponderResources
	put24(b[36:], m.LocalEECN)
	b[39] = m.InitiatorDepth
	put24(b[40:], m.RemoteEECN)
	b[43] = m.RemoteResponseTimeout<<3 | byte(m.Transport&3)<<1 | bit(m.FlowControl)
	put24(b[44:], uint32(m.StartingPSN))
	b[47] = m.LocalResponseTimeout<<3 | m.RetryCount&7
	binary.BigEndian.PutUint16(b[48:], m.PKey)
	b[50] = byte(m.MTU)<<4 | bit(m.RDCExists)<<3 | m.RNRRetryCount&7
	b[51] = m.MaxCMRetries<<4 | bit(m.SRQ)<<3 | m.ExtendedTransport&7
	m.Primary.put(b[52:])
	m.Alternate.put(b[96:])
	copy(b[140:], m.Private[:])
}

// A TransportType is the service type that a REQ asks for (IBTA 12.6.5).
type TransportType uint8

// The service types.
const (
	TransportRC       TransportType = 0
	TransportUC       TransportType = 1
	TransportRD       TransportType = 2
	TransportExtended TransportType = 3 // see ExtendedTransport; 1 is XRC
)

// An Announcement is what softrdma announces in a REQ's reserved bits
// 32: "SR" in the upper half and the device's UDP port in the lower. Peers of
// other kinds leave it zero and ignore it.
type Announcement uint32

const announced = 0x5352 // "SR"

// Announce makes the announcement of a device on a UDP port.
func Announce(port uint16) Announcement { return announced<<16 | Announcement(port) }

// Port returns the UDP port that is announced, and whether one is.
func (a Announcement) Port() (uint16, bool) {
	return uint16(a), a>>16 == announced && uint16(a) != 0
}

// An MTU is a path MTU as messages carry it: 1 to 5 stand for 256 to 4096
// bytes.
type MTU uint8

// MTUFrom returns the field of an MTU in bytes, or 0 if there is none.
func MTUFrom(bytes int) MTU {
	for m := MTU(1); m <= 5; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}

// Bytes returns the MTU in bytes, 0 if the field is reserved.
func (m MTU) Bytes() int {
	if m < 1 || m > 5 {
		return 0
	}
	return 128 << m
}
