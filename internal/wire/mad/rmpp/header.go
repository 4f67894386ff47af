// Package rmpp has the header of the reliable multi-packet protocol, by which
// management datagrams carry more than one packet holds (IBTA 13.6).
//
// It does no I/O, keeps no state and never panics on any input.
package rmpp

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/wire/mad"
)

// Version is the version of the protocol. At and Len are place and length of
// the header in the datagram.
const (
	Version = 1
	At      = 24
	Len     = 12
)

// A Type is the kind of a packet (IBTA 13.6.2.1). Packets of type None do not
// use the protocol.
type Type uint8

// The types.
const (
	None  Type = 0
	Data  Type = 1
	ACK   Type = 2
	Stop  Type = 3
	Abort Type = 4
)

// String returns the name of the type.
func (t Type) String() string {
	names := [...]string{"none", "DATA", "ACK", "STOP", "ABORT"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("RMPP type %d (reserved)", uint8(t))
}

// Flags of a packet.
const (
	Active = 1
	First  = 2 // segment
	Last   = 4
)

// NoResponseTime as response time leaves the peer's choice.
const NoResponseTime = 31

// A Status is why a transfer ends (IBTA 13.6.2.2).
type Status uint8

// The status codes. All but StatusResources abort.
const (
	StatusNormal      Status = 0
	StatusResources   Status = 1   // STOP: resources are exhausted
	StatusTooLong     Status = 118 // the total time of the transfer
	StatusLength      Status = 119 // of the payload, for the last segment
	StatusFirst       Status = 120 // the first flag does not fit the segment number
	StatusType        Status = 121
	StatusWindowSmall Status = 122 // new window last before the segment number
	StatusSegment     Status = 123 // beyond the window
	StatusIllegal     Status = 124
	StatusVersion     Status = 125
	StatusRetries     Status = 126
	StatusUnspecified Status = 127
)

// A Header is the header of a packet. In DATA packets Second is the length of
// the payload: in the first segment that of the whole transfer or 0, in the last
// that of the segment. In ACK packets it is the last segment of the new window.
//
//	0 |  RMPPVersion  |   RMPPType    |RRespTime|Flags|  RMPPStatus   |
//	4 |                        SegmentNumber                          |
//	8 |                PayloadLength or NewWindowLast                 |
type Header struct {
	Version  uint8
	Type     Type
	RespTime uint8 // 5 bits: 4.096 µs times 2 to its power
	Flags    uint8 // 3 bits
	Status   Status
	Segment  uint32
	Second   uint32
}

// Parse reads the header of a datagram.
func (h *Header) Parse(d *[mad.Len]byte) {
	b := d[At:]
	h.Version, h.Type, h.RespTime, h.Flags, h.Status = b[0], Type(b[1]), b[2]>>3, b[2]&7, Status(b[3])
	h.Segment = binary.BigEndian.Uint32(b[4:])
	h.Second = binary.BigEndian.Uint32(b[8:])
}

// Put writes the header into a datagram.
func (h *Header) Put(d *[mad.Len]byte) {
	b := d[At:]
	b[0], b[1], b[2], b[3] = h.Version, uint8(h.Type), h.RespTime<<3|h.Flags&7, uint8(h.Status)
	binary.BigEndian.PutUint32(b[4:], h.Segment)
	binary.BigEndian.PutUint32(b[8:], h.Second)
}
