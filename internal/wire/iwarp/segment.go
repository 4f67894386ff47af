package iwarp

import "encoding/binary"

// Lengths, with the ULPDU length in front.
const (
	LengthLen   = 2
	PrefixLen   = 4 // up to the control fields of DDP and RDMAP
	TaggedLen   = 16
	UntaggedLen = 20
)

// The versions of both protocols.
const (
	DDPVersion   = 1
	RDMAPVersion = 1
)

const (
	flagTagged = 0x80
	flagLast   = 0x40
)

// A Segment is the header of a DDP segment with RDMAP's part of it, after the
// ULPDU length (RFC 5041 4.2 and 4.3, RFC 5040 4.1):
//
//	+-------------------------------+-+-+-------+---+---+---+-------+
//	|         ULPDU Length          |T|L| Rsvd  |DV |RV |Rsv|Opcode |
//	+-------------------------------+-+-+-------+---+---+---+-------+
//
// and after that, if T is set,
//
//	+---------------------------------------------------------------+
//	|                             STag                              |
//	+---------------------------------------------------------------+
//	|                         Tagged Offset                         |
//	|                                                               |
//	+---------------------------------------------------------------+
//
// or else
//
//	+---------------------------------------------------------------+
//	|                  Invalidate STag, or reserved                 |
//	+---------------------------------------------------------------+
//	|                         Queue Number                          |
//	+---------------------------------------------------------------+
//	|                   Message Sequence Number                     |
//	+---------------------------------------------------------------+
//	|                        Message Offset                         |
//	+---------------------------------------------------------------+
type Segment struct {
	Length       uint16 // of the ULPDU: the segment with its payload
	Tagged, Last bool
	DDPVersion   uint8
	RDMAPVersion uint8
	Opcode       Opcode

	STag uint32 // tagged
	TO   uint64

	Invalidate uint32 // untagged
	Queue      uint32
	MSN        uint32
	MO         uint32
}

// ParsePrefix reads the first fields: length, flags, versions and opcode. It
// reports whether b has PrefixLen bytes.
func (s *Segment) ParsePrefix(b []byte) bool {
	if len(b) < PrefixLen {
		return false
	}
	s.Length = binary.BigEndian.Uint16(b)
	s.Tagged, s.Last, s.DDPVersion = b[2]&flagTagged != 0, b[2]&flagLast != 0, b[2]&3
	s.RDMAPVersion, s.Opcode = b[3]>>6, Opcode(b[3]&0xf)
	return true
}

// HeaderLen returns the length of the header, by its tagged flag.
func (s *Segment) HeaderLen() int {
	if s.Tagged {
		return TaggedLen
	}
	return UntaggedLen
}

// Parse reads the header. It reports whether b has that many bytes.
func (s *Segment) Parse(b []byte) bool {
	if !s.ParsePrefix(b) || len(b) < s.HeaderLen() {
		return false
	}
	if s.Tagged {
		s.STag, s.TO = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint64(b[8:])
		s.Invalidate, s.Queue, s.MSN, s.MO = 0, 0, 0, 0
		return true
	}
	s.STag, s.TO = 0, 0
	s.Invalidate, s.Queue = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.MSN, s.MO = binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[16:])
	return true
}

// Put writes the header to b, which has room for it, with the versions of this
// package, and returns its length.
func (s *Segment) Put(b []byte) int {
	binary.BigEndian.PutUint16(b, s.Length)
	b[2], b[3] = DDPVersion, RDMAPVersion<<6|byte(s.Opcode&0xf)
	if s.Last {
		b[2] |= flagLast
	}
	if s.Tagged {
		b[2] |= flagTagged
		binary.BigEndian.PutUint32(b[4:], s.STag)
		binary.BigEndian.PutUint64(b[8:], s.TO)
		return TaggedLen
	}
	binary.BigEndian.PutUint32(b[4:], s.Invalidate)
	binary.BigEndian.PutUint32(b[8:], s.Queue)
	binary.BigEndian.PutUint32(b[12:], s.MSN)
	binary.BigEndian.PutUint32(b[16:], s.MO)
	return UntaggedLen
}
