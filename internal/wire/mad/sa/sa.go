// Package sa has the formats of subnet administration: the header with its
// component mask, and each record (IBTA 15.2). A record is a fixed-size
// comparable value; Match compares two by the components that a query names.
//
// Every field lies inside of the 200 bytes of a datagram's data, so Parse cannot
// fail and keeps the values found. Put writes the fields and leaves the bits
// between them as they are. Records of a table follow each other as RMPP
// carries them (see Header.RecordLen).
//
// It does no I/O, keeps no state and never panics on any input.
package sa

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
)

// ClassVersion is the version of the class (IBTA 15.2.1.1).
const ClassVersion = 2

// DataAt is where the records begin in a datagram, DataLen the room for them,
// and HeaderLen the part of an RMPP segment before them.
const (
	DataAt    = 56
	DataLen   = mad.Len - DataAt
	HeaderLen = DataAt - rmpp.At - rmpp.Len
)

// Attributes (IBTA 15.2.5).
const (
	AttrNodeRecord                mad.AttributeID = 0x0011
	AttrPortInfoRecord            mad.AttributeID = 0x0012
	AttrSLtoVLRecord              mad.AttributeID = 0x0013
	AttrSwitchInfoRecord          mad.AttributeID = 0x0014
	AttrLinearForwardingRecord    mad.AttributeID = 0x0015
	AttrMulticastForwardingRecord mad.AttributeID = 0x0017
	AttrSMInfoRecord              mad.AttributeID = 0x0018
	AttrLinkRecord                mad.AttributeID = 0x0020
	AttrGUIDInfoRecord            mad.AttributeID = 0x0030
	AttrServiceRecord             mad.AttributeID = 0x0031
	AttrPKeyTableRecord           mad.AttributeID = 0x0033
	AttrPathRecord                mad.AttributeID = 0x0035
	AttrVLArbitrationRecord       mad.AttributeID = 0x0036
	AttrMCMemberRecord            mad.AttributeID = 0x0038
	AttrTraceRecord               mad.AttributeID = 0x0039
	AttrMultiPathRecord           mad.AttributeID = 0x003a
	AttrInformInfoRecord          mad.AttributeID = 0x00f3
)

// Status of a response, the bits of the class (IBTA 15.2.3).
const (
	StatusNoResources     = 0x0100
	StatusInvalid         = 0x0200
	StatusNoRecords       = 0x0300
	StatusTooManyRecords  = 0x0400 // for a Get, which has one
	StatusInvalidGID      = 0x0500
	StatusTooFew          = 0x0600 // components of the query
	StatusDenied          = 0x0700
	StatusPrioritySuggest = 0x0800
)

// Capabilities of the class in ClassPortInfo (IBTA 15.2.4.1).
const (
	CapOptionalRecords    = 1 << 8
	CapMulticast          = 1 << 9
	CapMultiPath          = 1 << 10
	CapReinit             = 1 << 11
	CapPortInfoCapMatches = 1 << 13
)

// A Header is the header of a datagram of subnet administration (IBTA
// 15.2.1.1).
//
//	 0 |                 Common header (24 bytes)                      |
//	24 |                  RMPP header (12 bytes)                       |
//	36 |                      SM_Key (8 bytes)                         |
//	44 |       AttributeOffset         |           Reserved            |
//	48 |                   ComponentMask (8 bytes)                     |
//	56 |               Records (at most 200 bytes)                     |
type Header struct {
	MAD           mad.Header
	RMPP          rmpp.Header
	SMKey         uint64
	Offset        uint16 // from one record of a table to the next, in units of 8 bytes
	ComponentMask uint64
}

// RecordLen returns the room of one record of a table in bytes.
func (h *Header) RecordLen() int { return 8 * int(h.Offset) }

// OffsetFor returns the AttributeOffset of records of a length.
func OffsetFor(length int) uint16 { return uint16((length + 7) / 8) }

// Parse reads the header of a datagram.
func (h *Header) Parse(d *[mad.Len]byte) {
	h.MAD.Parse(d)
	h.RMPP.Parse(d)
	h.SMKey = binary.BigEndian.Uint64(d[36:])
	h.Offset = binary.BigEndian.Uint16(d[44:])
	h.ComponentMask = binary.BigEndian.Uint64(d[48:])
}

// Put writes the header into a datagram.
func (h *Header) Put(d *[mad.Len]byte) {
	h.MAD.Put(d)
	h.RMPP.Put(d)
	binary.BigEndian.PutUint64(d[36:], h.SMKey)
	binary.BigEndian.PutUint16(d[44:], h.Offset)
	binary.BigEndian.PutUint64(d[48:], h.ComponentMask)
}

// Data returns the data of a datagram.
func Data(d *[mad.Len]byte) *[DataLen]byte { return (*[DataLen]byte)(d[DataAt:]) }

// A Record is any of the records.
type Record interface {
	Parse(b *[DataLen]byte)
	Put(b *[DataLen]byte)
}

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}
