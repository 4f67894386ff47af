package mad

import (
	"encoding/binary"
	"fmt"
)

// How many bytes of additional information and of private data the messages of
// service ID resolution carry.
const (
	SIDRReqPrivateLen = 216
	SIDRRepInfoLen    = 72
	SIDRRepPrivateLen = 136
)

// A SIDRReq asks for the queue pair that serves a service ID by datagrams (IBTA
// 12.11.1).
//
//	 0 |                          Request ID                           |
//	 4 |             P_Key             |        Reserved (Port)        |
//	 8 |                           ServiceID                           |
//	12 |                                                               |
//	16 |      Private Data (216 bytes)                                 |
type SIDRReq struct {
	RequestID uint32
	PKey      uint16
	Port      uint16 // reserved by the standard: the UDP port of a softrdma device, 0 for 4791
	Service   ServiceID
	Private   [SIDRReqPrivateLen]byte
}

// Parse reads the message.
func (m *SIDRReq) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.RequestID = binary.BigEndian.Uint32(b)
	m.PKey = binary.BigEndian.Uint16(b[4:])
	m.Port = binary.BigEndian.Uint16(b[6:])
	m.Service = ServiceID(binary.BigEndian.Uint64(b[8:]))
	copy(m.Private[:], b[16:])
}

// Put writes the message after the header, which is already in d.
func (m *SIDRReq) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.RequestID)
	binary.BigEndian.PutUint16(b[4:], m.PKey)
	binary.BigEndian.PutUint16(b[6:], m.Port)
	binary.BigEndian.PutUint64(b[8:], uint64(m.Service))
	copy(b[16:], m.Private[:])
}

// A SIDRRep answers a SIDRReq (IBTA 12.11.2).
//
//	 0 |                          Request ID                           |
//	 4 |    Status     |  Info Length  |        Vendor ID (high)       |
//	 8 |                      QPN                      |Vendor ID (low)|
//	12 |                           ServiceID                           |
//	16 |                                                               |
//	20 |                             Q_Key                             |
//	24 |      Additional Information (72 bytes)                        |
//	96 |      Private Data (136 bytes)                                 |
type SIDRRep struct {
	RequestID uint32
	Status    SIDRStatus
	InfoLen   uint8
	VendorID  uint32 // 24 bits
	QPN       uint32 // 24 bits
	Service   ServiceID
	QKey      uint32
	Info      [SIDRRepInfoLen]byte
	Private   [SIDRRepPrivateLen]byte
}

// Parse reads the message.
func (m *SIDRRep) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.RequestID = binary.BigEndian.Uint32(b)
	m.Status, m.InfoLen = SIDRStatus(b[4]), b[5]
	m.VendorID = uint32(binary.BigEndian.Uint16(b[6:]))<<8 | uint32(b[11])
	m.QPN = get24(b[8:])
	m.Service = ServiceID(binary.BigEndian.Uint64(b[12:]))
	m.QKey = binary.BigEndian.Uint32(b[20:])
	copy(m.Info[:], b[24:])
	copy(m.Private[:], b[96:])
}

// Put writes the message after the header, which is already in d.
func (m *SIDRRep) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.RequestID)
	b[4], b[5] = byte(m.Status), m.InfoLen
	binary.BigEndian.PutUint16(b[6:], uint16(m.VendorID>>8))
	put24(b[8:], m.QPN)
	b[11] = byte(m.VendorID)
	binary.BigEndian.PutUint64(b[12:], uint64(m.Service))
	binary.BigEndian.PutUint32(b[20:], m.QKey)
	copy(b[24:96], m.Info[:])
	copy(b[96:], m.Private[:])
}

// Additional returns the additional information, never longer than its field.
func (m *SIDRRep) Additional() []byte { return m.Info[:min(int(m.InfoLen), SIDRRepInfoLen)] }

// A SIDRStatus is the result of a service ID resolution (IBTA 12.11.2).
type SIDRStatus uint8

// The outcomes.
const (
	SIDRSuccess            SIDRStatus = 0
	SIDRUnsupported        SIDRStatus = 1
	SIDRRejected           SIDRStatus = 2
	SIDRNoQP               SIDRStatus = 3
	SIDRRedirected         SIDRStatus = 4
	SIDRUnsupportedVersion SIDRStatus = 5
)

var sidrStatuses = [...]string{
	SIDRSuccess:            "valid QPN",
	SIDRUnsupported:        "service ID not supported",
	SIDRRejected:           "rejected by the service provider",
	SIDRNoQP:               "no queue pair available",
	SIDRRedirected:         "request redirected",
	SIDRUnsupportedVersion: "class version not supported",
}

// String describes the outcome.
func (s SIDRStatus) String() string {
	if int(s) < len(sidrStatuses) {
		return sidrStatuses[s]
	}
	return fmt.Sprintf("SIDR status %d (reserved)", uint8(s))
}
