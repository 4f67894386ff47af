// Package mad has the format of the management datagrams of queue pair 1: the common header
// of the general management class, each message of the communication manager (IBTA chapter
// 12), and what the IP CM service (IBTA annex A11) puts into them: service IDs of ports
// (service.go) and the private-data header (ipcm.go). Each message is a fixed-size
// comparable value in a separate file.
//
// A datagram's length and header are checked once, by ParseHeader; after that
// the messages' Parse cannot fail, since every field lies inside of the 256
// bytes and the fields keep the values found. The communication manager decides what
// values mean, and which it refuses.
//
// It does no I/O, keeps no state and never panics on any input.
//
// # What softrdma announces
//
// A softrdma device may have a UDP port other than 4791, which the source port
// of a packet does not reveal. Reserved fields, which other implementations send
// as zero and ignore, carry it: in the REQ 32 bits at offset 24 of the message
// (REQ.Announcement), in the SIDR_REQ 16 bits at offset 6 (SIDRReq.Port), and
// if the port is not 4791, in every message the 16 reserved bits of the
// header (Header.Port), so that stateless answers reach it too.
package mad

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/reason"
)

// Lengths of a management datagram in bytes (IBTA 13.4.2).
const (
	Len       = 256
	HeaderLen = 24
)

// Queue pair 1 of the general service interface (IBTA 13.5.1).
const (
	GSIQPN  = 1
	GSIQKey = 0x80010000
)

// What the header of a communication manager's message holds (IBTA 12.6.1 and
// 13.4.2).
const (
	BaseVersion    = 1
	ClassCM        = 0x07
	CMClassVersion = 2
	MethodSend     = 0x03
)

// A Header is the common header of management datagrams (IBTA 13.4.2).
//
//	+---------------+---------------+---------------+---------------+
//	| Base Version  |  Mgmt Class   | Class Version |R|   Method    |
//	+---------------+---------------+---------------+---------------+
//	|            Status             |        Class Specific         |
//	+---------------+---------------+---------------+---------------+
//	|                         Transaction ID                        |
//	|                                                               |
//	+---------------+---------------+---------------+---------------+
//	|         Attribute ID          |       Reserved (Port)         |
//	+---------------+---------------+---------------+---------------+
//	|                       Attribute Modifier                      |
//	+---------------------------------------------------------------+
type Header struct {
	BaseVersion   uint8
	Class         uint8
	ClassVersion  uint8
	Method        uint8
	Status        uint16
	ClassSpecific uint16
	TID           uint64
	Attribute     AttributeID
	Port          uint16 // reserved by the standard: the UDP port of a softrdma device that is not 4791
	Modifier      uint32
}

// NewHeader returns the header of a communication manager's message.
func NewHeader(a AttributeID, tid uint64) Header {
	return Header{BaseVersion: BaseVersion, Class: ClassCM, ClassVersion: CMClassVersion, Method: MethodSend,
		TID: tid, Attribute: a}
}

// Parse reads the header of a datagram whose length was checked.
func (h *Header) Parse(b *[Len]byte) {
	h.BaseVersion, h.Class, h.ClassVersion, h.Method = b[0], b[1], b[2], b[3]
	h.Status = binary.BigEndian.Uint16(b[4:])
	h.ClassSpecific = binary.BigEndian.Uint16(b[6:])
	h.TID = binary.BigEndian.Uint64(b[8:])
	h.Attribute = AttributeID(binary.BigEndian.Uint16(b[16:]))
	h.Port = binary.BigEndian.Uint16(b[18:])
	h.Modifier = binary.BigEndian.Uint32(b[20:])
}

// Put writes the header.
func (h *Header) Put(b *[Len]byte) {
	b[0], b[1], b[2], b[3] = h.BaseVersion, h.Class, h.ClassVersion, h.Method
	binary.BigEndian.PutUint16(b[4:], h.Status)
	binary.BigEndian.PutUint16(b[6:], h.ClassSpecific)
	binary.BigEndian.PutUint64(b[8:], h.TID)
	binary.BigEndian.PutUint16(b[16:], uint16(h.Attribute))
	binary.BigEndian.PutUint16(b[18:], h.Port)
	binary.BigEndian.PutUint32(b[20:], h.Modifier)
}

// ParseHeader checks the length and the header of a datagram in the order of
// IBTA 13.5.3, and returns a reason for what is no message of this communication
// manager's version. If the length is right, it returns header and datagram even then.
// The datagram aliases b.
func ParseHeader(b []byte, h *Header) (*[Len]byte, reason.Detail) {
	if len(b) != Len {
		return nil, reason.Detail{Reason: reason.MADLength, Expected: Len, Found: uint64(len(b))}
	}
	m := (*[Len]byte)(b)
	h.Parse(m)
	switch {
	case h.BaseVersion != BaseVersion:
		return m, reason.Detail{Reason: reason.MADVersion, Expected: BaseVersion, Found: uint64(h.BaseVersion)}
	case h.Class != ClassCM:
		return m, reason.Detail{Reason: reason.MADClass, Expected: ClassCM, Found: uint64(h.Class)}
	case h.ClassVersion != CMClassVersion:
		return m, reason.Detail{Reason: reason.MADClassVersion, Expected: CMClassVersion, Found: uint64(h.ClassVersion)}
	case h.Method != MethodSend:
		return m, reason.Detail{Reason: reason.MADMethod, Expected: MethodSend, Found: uint64(h.Method)}
	case !h.Attribute.Known():
		return m, reason.Detail{Reason: reason.MADAttribute, Expected: uint64(len(attributes)), Found: uint64(h.Attribute)}
	}
	return m, reason.Detail{}
}

// An AttributeID is the type of a message of the communication manager (IBTA
// 12.6.1).
type AttributeID uint16

// The messages.
const (
	AttrREQ     AttributeID = 0x0010
	AttrMRA     AttributeID = 0x0011
	AttrREJ     AttributeID = 0x0012
	AttrREP     AttributeID = 0x0013
	AttrRTU     AttributeID = 0x0014
	AttrDREQ    AttributeID = 0x0015
	AttrDREP    AttributeID = 0x0016
	AttrSIDRReq AttributeID = 0x0017
	AttrSIDRRep AttributeID = 0x0018
	AttrLAP     AttributeID = 0x0019
	AttrAPR     AttributeID = 0x001a
)

// attributes is the table of the messages, by attribute ID from AttrREQ on.
var attributes = [...]struct {
	name    string
	private int // room for private data
}{
	{"REQ", REQPrivateLen},
	{"MRA", MRAPrivateLen},
	{"REJ", REJPrivateLen},
	{"REP", REPPrivateLen},
	{"RTU", RTUPrivateLen},
	{"DREQ", DREQPrivateLen},
	{"DREP", DREPPrivateLen},
	{"SIDR_REQ", SIDRReqPrivateLen},
	{"SIDR_REP", SIDRRepPrivateLen},
	{"LAP", LAPPrivateLen},
	{"APR", APRPrivateLen},
}

// Known reports whether a is an attribute of the communication manager.
func (a AttributeID) Known() bool {
	return a >= AttrREQ && int(a-AttrREQ) < len(attributes)
}

// PrivateLen returns how many bytes of private data the message has room for.
func (a AttributeID) PrivateLen() int {
	if !a.Known() {
		return 0
	}
	return attributes[a-AttrREQ].private
}

// String returns the specification's name.
func (a AttributeID) String() string {
	if !a.Known() {
		return fmt.Sprintf("attribute %#04x", uint16(a))
	}
	return attributes[a-AttrREQ].name
}

// Which names the message that an MRA or a REJ answers (IBTA 12.6.6 and
// 12.6.7).
type Which uint8

// The messages that are answered.
const (
	OfREQ   Which = 0
	OfREP   Which = 1
	OfOther Which = 2 // in a REJ any other message, in an MRA the LAP
)

// String names the message.
func (w Which) String() string {
	switch w {
	case OfREQ:
		return "REQ"
	case OfREP:
		return "REP"
	case OfOther:
		return "other message"
	}
	return fmt.Sprintf("message %d (reserved)", uint8(w))
}

// put24 writes 24 bits, get24 reads them: QPNs and PSNs lie in front of a byte
// of something else.
func put24(b []byte, v uint32) {
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

func get24(b []byte) uint32 {
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// bit is v as a field of one bit.
func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}
