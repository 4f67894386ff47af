package iwarp

import "encoding/binary"

const (
	termControlLen = 4

	// MaxTerminate is the longest Terminate, from the ULPDU length on: with the
	// length and headers of a read request.
	MaxTerminate = UntaggedLen + termControlLen + LengthLen + UntaggedLen - LengthLen + ReadLen
)

// A Term is the error that ended a stream: the layer that found it, its type and its code
// (RFC 5040 4.8), as 16 bits on the wire.
type Term uint16

// Layer returns the layer: RDMAP, DDP or the one below, MPA.
func (t Term) Layer() uint8 { return uint8(t >> 12) }

// Type returns the type of the error, by layer.
func (t Term) Type() uint8 { return uint8(t>>8) & 0xf }

// Code returns the code of the error, by layer and type.
func (t Term) Code() uint8 { return uint8(t) }

// protection reports whether the error is RDMAP's remote protection error.
func (t Term) protection() bool { return t.Layer() == LayerRDMAP && t.Type() == 1 }

// The layers.
const (
	LayerRDMAP = 0
	LayerDDP   = 1
	LayerMPA   = 2
)

// The errors (RFC 5040 4.8, RFC 5041 7.2, RFC 5044 8, RFC 6581 8; all in RFC 6580
// 3.1 to 3.3).
const (
	TermLocal Term = 0x0000 // of RDMAP: local catastrophic error

	TermProtectionSTag       Term = 0x0100
	TermProtectionBounds     Term = 0x0101
	TermProtectionAccess     Term = 0x0102
	TermProtectionStream     Term = 0x0103
	TermProtectionWrap       Term = 0x0104
	TermProtectionInvalidate Term = 0x0109
	TermProtectionOther      Term = 0x01ff

	TermOperationVersion    Term = 0x0205
	TermOperationOpcode     Term = 0x0206
	TermOperationStream     Term = 0x0207 // catastrophic, of this stream
	TermOperationGlobal     Term = 0x0208 // catastrophic, of the adapter
	TermOperationInvalidate Term = 0x0209
	TermOperationOther      Term = 0x02ff

	TermDDPLocal Term = 0x1000

	TermTaggedSTag    Term = 0x1100
	TermTaggedBounds  Term = 0x1101
	TermTaggedStream  Term = 0x1102
	TermTaggedWrap    Term = 0x1103
	TermTaggedVersion Term = 0x1104

	TermUntaggedQueue   Term = 0x1201
	TermUntaggedBuffer  Term = 0x1202 // no buffer for the MSN
	TermUntaggedMSN     Term = 0x1203
	TermUntaggedMO      Term = 0x1204
	TermUntaggedLength  Term = 0x1205
	TermUntaggedVersion Term = 0x1206

	TermMPAClosed Term = 0x2001
	TermMPACRC    Term = 0x2002
	TermMPAMarker Term = 0x2003 // marker or ULPDU length
	TermMPAFrame  Term = 0x2004 // of start-up
	TermMPALocal  Term = 0x2005
	TermMPAIRD    Term = 0x2006
	TermMPARTR    Term = 0x2007
)

// Flags of a Terminate: which parts it has.
const (
	termHasLength = 0x80 // M
	termHasDDP    = 0x40 // D
	termHasRDMAP  = 0x20 // R
)

// The flags of Linux's siw on little-endian machines, where its bit fields have the
// opposite order within each byte: layer and type are swapped, and the flags are the
// lowest bits, which RFC 5040 leaves zero.
const (
	siwHasLength = 0x01
	siwHasDDP    = 0x02
	siwHasRDMAP  = 0x04
	siwFlags     = siwHasLength | siwHasDDP | siwHasRDMAP
)

// Swapped returns the error with layer and type exchanged.
func (t Term) Swapped() Term { return t&0xf000>>4 | t&0x0f00<<4 | t&0xff }

// A Termination is the Terminate message after its Segment (RFC 5040 4.8):
//
//	+-------+-------+---------------+-+-+-+-------------------------+
//	| Layer | EType |  Error Code   |M|D|R|        Reserved         |
//	+-------+-------+---------------+-+-+-+-------------------------+
//	|  DDP Segment Length (16, M)   |   Terminated DDP Header (D)   |
//	+-------------------------------+                               |
//	|                              ...                              |
//	+---------------------------------------------------------------+
//	|            Terminated RDMAP Header (28 bytes, R)              |
//	+---------------------------------------------------------------+
//
// R is set for an RDMA Read Request that was refused only for protection. Length and
// header together are the Segment of the offending message.
type Termination struct {
	Term      Term
	HasLength bool
	HasDDP    bool
	HasRDMAP  bool
	Segment   Segment // of the offending message, if HasDDP
	Read      Read    // if HasRDMAP
}

// Parse reads as much of the message as b has: parts that are truncated or announced
// wrongly count as missing, since the error itself comes first. It reports whether b has
// the error.
func (t *Termination) Parse(b []byte) bool {
	*t = Termination{}
	if len(b) < termControlLen {
		return false
	}
	flags := t.parseTerm(b)
	b = b[termControlLen:]
	if flags&termHasLength == 0 || len(b) < LengthLen {
		return true
	}
	t.HasLength = true
	t.Segment.Length = binary.BigEndian.Uint16(b)
	if flags&termHasDDP == 0 || !t.Segment.Parse(b) {
		return true
	}
	t.HasDDP = true
	b = b[t.Segment.HeaderLen():]
	t.HasRDMAP = flags&termHasRDMAP != 0 && t.Read.Parse(b)
	return true
}

// parseTerm reads the error, in the RFC's layout or in siw's, and returns the flags.
// Without flags the layout is the one in which the error has a name: the RFC's if it has
// one in both.
func (t *Termination) parseTerm(b []byte) (flags uint8) {
	t.Term, flags = Term(binary.BigEndian.Uint16(b)), b[2]
	if low := flags & siwFlags; low != 0 && flags&^siwFlags == 0 {
		t.Term = t.Term.Swapped()
		flags = low&siwHasLength<<7 | low&siwHasDDP<<5 | low&siwHasRDMAP<<3
	} else if flags == 0 && termNames[t.Term] == "" && termNames[t.Term.Swapped()] != "" {
		t.Term = t.Term.Swapped()
	}
	return flags
}

// PutTermination writes a Terminate message to b, which has room for it, and returns its
// length. header is the beginning of the offending segment, from its length field on:
// empty, or a DDP header with or without the RDMA Read Request after it. The table of
// RFC 5040 4.8 decides what the message includes of it.
func PutTermination(b []byte, t Term, header []byte) int {
	binary.BigEndian.PutUint16(b, uint16(t))
	b[2], b[3] = 0, 0
	var s Segment
	if !s.Parse(header) {
		return termControlLen
	}
	b[2] = termHasLength | termHasDDP
	n := s.HeaderLen()
	if t.protection() && s.Opcode == ReadRequest && !s.Tagged && len(header) >= n+ReadLen {
		b[2] |= termHasRDMAP
		n += ReadLen
	}
	return termControlLen + copy(b[termControlLen:], header[:n])
}
