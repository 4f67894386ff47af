package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of RPC-over-RDMA.
const Version = 1

// A Type is the type of a message (rdma_proc, RFC 8166 4.1).
type Type uint32

// Types of messages. MSGP and Done are obsolete: a responder answers the first with ErrChunk, and
// ignores the second.
const (
	Msg   Type = iota // the RPC message follows the header
	NoMsg             // the RPC message is in a chunk
	MsgP
	Done
	Error
)

// Errors of a header. Each has a code that the requester is told.
var (
	ErrShort   = errors.New("RPC-over-RDMA header too short")
	ErrVersion = errors.New("RPC-over-RDMA version not supported") // ERR_VERS
	ErrChunk   = errors.New("RPC-over-RDMA chunks not valid")      // ERR_CHUNK
)

// An ErrorCode is the code of an Error message (rdma_err).
type ErrorCode uint32

// Codes of errors.
const (
	CodeVersion ErrorCode = 1 // ERR_VERS
	CodeChunk   ErrorCode = 2 // ERR_CHUNK
)

// Limits of a header. A header needs no more than an inline message has room for, so they bound the
// work for a message, not the use.
const (
	MaxSegments = 240 // of all lists together
	MaxChunks   = 16  // write chunks
	fixedLen    = 16  // xid, version, credits, type
	minLen      = 28  // with three empty lists
	segmentLen  = 16  // handle, length, offset
	maxPosition = 1e9 // of a read segment, bytes
)

// A Segment is a piece of the requester's registered memory.
type Segment struct {
	Handle uint32 // R_Key
	Length uint32 // bytes
	Offset uint64 // address
}

// A ReadSegment is an entry of the read list. Segments with one position are one chunk.
type ReadSegment struct {
	Position uint32 // of the data in the RPC message as it was before it was reduced, bytes
	Segment
}

// A Header is the transport header of a message.
type Header struct {
	XID     uint32
	Credits uint32 // asked for, or granted
	Type    Type

	Reads  []ReadSegment
	Writes [][]Segment // write chunks
	Reply  []Segment   // reply chunk, nil if there is none

	// Of an Error message.
	Code      ErrorCode
	Low, High uint32 // versions, with CodeVersion
}

// Parse parses a header, and returns what follows it. If the error wraps ErrVersion or ErrChunk, the
// XID is valid, so that the requester can be answered.
func Parse(b []byte) (h Header, rest []byte, err error) {
	if len(b) < minLen {
		if len(b) < fixedLen || binary.BigEndian.Uint32(b[12:]) != uint32(Error) {
			return h, nil, fmt.Errorf("%w: expected at least %d bytes, found %d", ErrShort, minLen, len(b))
		}
	}
	p := parser{b: b}
	h.XID = p.word()
	version := p.word()
	h.Credits, h.Type = p.word(), Type(p.word())
	if version != Version {
		return h, nil, fmt.Errorf("%w: expected %d, found %d", ErrVersion, Version, version)
	}
	switch h.Type {
	case Error:
		h.Code = ErrorCode(p.word())
		if h.Code == CodeVersion {
			h.Low, h.High = p.word(), p.word()
		}
		if p.err != nil {
			return h, nil, fmt.Errorf("%w: error message of %d bytes", ErrShort, len(b))
		}
		return h, p.b, nil
	case Done:
		return h, nil, nil
	case Msg, NoMsg:
	default:
		return h, nil, fmt.Errorf("%w: expected a message of type %d or %d, found %d", ErrChunk, Msg, NoMsg, h.Type)
	}
	p.readList(&h)
	p.writeList(&h)
	if p.present("reply chunk") {
		h.Reply = p.chunk()
	}
	if p.err != nil {
		return h, nil, p.err
	}
	return h, p.b, nil
}

// A parser takes words from the front of a message. After an error it returns zeros.
type parser struct {
	b        []byte
	segments int
	err      error
}

func (p *parser) word() uint32 {
	if p.err == nil && len(p.b) < 4 {
		p.fail("message ends in a list")
	}
	if p.err != nil {
		return 0
	}
	w := binary.BigEndian.Uint32(p.b)
	p.b = p.b[4:]
	return w
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{ErrChunk}, args...)...)
	}
}

// present parses the discriminator of an optional item.
func (p *parser) present(what string) bool {
	w := p.word()
	if w > 1 {
		p.fail("%s: expected 0 or 1 for absent or present, found %d", what, w)
	}
	return w == 1 && p.err == nil
}

func (p *parser) segment() Segment {
	if p.segments++; p.segments > MaxSegments {
		p.fail("expected at most %d segments, found more", MaxSegments)
	}
	s := Segment{Handle: p.word(), Length: p.word()}
	s.Offset = uint64(p.word())<<32 | uint64(p.word())
	if s.Offset+uint64(s.Length) < s.Offset {
		p.fail("segment of %d bytes at %#x passes the end of memory", s.Length, s.Offset)
	}
	return s
}

func (p *parser) readList(h *Header) {
	for p.present("read list") {
		position := p.word()
		if n := len(h.Reads); n > 0 && position < h.Reads[n-1].Position {
			p.fail("read list: expected a position from %d, found %d", h.Reads[n-1].Position, position)
		}
		if position%4 != 0 || position > maxPosition {
			p.fail("read list: expected a position that is a multiple of 4, at most %d, found %d", int(maxPosition), position)
		}
		h.Reads = append(h.Reads, ReadSegment{position, p.segment()})
	}
}

func (p *parser) writeList(h *Header) {
	for p.present("write list") {
		if len(h.Writes) == MaxChunks {
			p.fail("write list: expected at most %d chunks, found more", MaxChunks)
			return
		}
		h.Writes = append(h.Writes, p.chunk())
	}
}

// chunk parses a counted array of segments.
func (p *parser) chunk() []Segment {
	n := p.word()
	if p.err == nil && int64(n)*segmentLen > int64(len(p.b)) {
		p.fail("chunk of %d segments in a message with %d bytes left", n, len(p.b))
	}
	if p.err != nil {
		return nil
	}
	segments := make([]Segment, 0, min(n, MaxSegments))
	for range n {
		segments = append(segments, p.segment())
		if p.err != nil {
			return nil
		}
	}
	return segments
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	word := func(words ...uint32) {
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
	}
	segment := func(s Segment) {
		word(s.Handle, s.Length, uint32(s.Offset>>32), uint32(s.Offset))
	}
	word(h.XID, Version, h.Credits, uint32(h.Type))
	switch h.Type {
	case Error:
		word(uint32(h.Code))
		if h.Code == CodeVersion {
			word(h.Low, h.High)
		}
		return b
	case Done:
		return b
	}
	for _, r := range h.Reads {
		word(1, r.Position)
		segment(r.Segment)
	}
	word(0)
	for _, c := range h.Writes {
		word(1, uint32(len(c)))
		for _, s := range c {
			segment(s)
		}
	}
	word(0)
	if h.Reply == nil {
		word(0)
		return b
	}
	word(1, uint32(len(h.Reply)))
	for _, s := range h.Reply {
		segment(s)
	}
	return b
}

// Len returns the bytes that Append appends.
func (h *Header) Len() int {
	switch {
	case h.Type == Done:
		return fixedLen
	case h.Type == Error && h.Code == CodeVersion:
		return fixedLen + 12
	case h.Type == Error:
		return fixedLen + 4
	}
	n := minLen + len(h.Reads)*(8+segmentLen)
	for _, c := range h.Writes {
		n += 8 + len(c)*segmentLen
	}
	if h.Reply != nil {
		n += 4 + len(h.Reply)*segmentLen
	}
	return n
}

// Length returns the bytes of segments.
func Length(segments []Segment) (n uint64) {
	for _, s := range segments {
		n += uint64(s.Length)
	}
	return n
}
