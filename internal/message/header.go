package message

import (
	"encoding/binary"
	"fmt"
)

// HeaderLen is the length of the header of each frame.
const HeaderLen = 40

// What can follow the header of a frame.
const (
	MaxHeader   = 1024 // bytes of an active message's header
	MaxSegments = 16   // pieces of memory of an announced message
	segmentLen  = 16
	maxAnnounce = MaxHeader + MaxSegments*segmentLen
)

// FrameLen returns the length of the longest frame for a worker with a configuration.
func (c *Config) FrameLen() int { return HeaderLen + max(c.Eager, maxAnnounce) }

// version is the version of the format. Workers of different versions cannot communicate.
const version = 4

// A kind is the type of a frame.
type kind uint8

const (
	kindEager          kind = iota + 1 // a message, whose bytes follow the header
	kindAnnounce                       // a message that the receiver reads from the sender's memory
	kindFinish                         // a message was matched and, if it was announced, read
	kindCredit                         // only credits
	kindActive                         // an active message: its header and its bytes follow
	kindActiveAnnounce                 // an active message whose bytes the receiver reads: its header follows
	kindStream                         // data of a stream
	kindWindow                         // data of a stream was read
	kindAccept                         // the receiver's memory for the data of an announced message
	kindWritten                        // the data of an accepted message was written
	kindBatch                          // several eager messages
	kinds
)

var kindNames = [kinds]string{
	kindEager: "eager", kindAnnounce: "announce", kindFinish: "finish", kindCredit: "credit",
	kindActive: "active", kindActiveAnnounce: "announce active", kindStream: "stream", kindWindow: "window",
	kindAccept: "accept", kindWritten: "written",
	kindBatch: "batch",
}

// String returns the kind's name. Arrive refuses kinds without one.
func (k kind) String() string { return kindNames[k] }

// The flags of a frame.
const (
	flagSync     = 1 << iota // finish this eager message when it is matched
	flagFull                 // unmatched messages hold all credits: announce further messages
	flagSegments             // the announced message has several pieces, listed at the frame's end
	flagRefused              // the data of the finished active message was rejected, or there is no handler
)

// A Header is the beginning of each frame.
//
//	 0               1               2               3
//	+---------------+---------------+---------------+---------------+
//	|    version    |     kind      |     flags     |   reserved    |
//	+---------------+---------------+---------------+---------------+
//	|            credits            |        active credits         |
//	+---------------+---------------+---------------+---------------+
//	|  tag; header's length (4 bytes) and ID (4) of an active       |
//	|  message; reason of a refusal, 0 if there is no handler       |
//	|                        length (8 bytes)                       |
//	|                number of the message (4 bytes)                |
//	|                         key (4 bytes)                         |
//	|                       address (8 bytes)                       |
//	+---------------------------------------------------------------+
//
// If announced or accepted memory has several pieces, key and address are not used. Each piece
// has 16 bytes at the end of the frame:
//
//	| address (8 bytes) | key (4 bytes) | length (4 bytes) |
type Header struct {
	kind    kind
	flags   uint8
	credits uint16 // returned credits of eager messages
	active  uint16 // returned credits of active messages
	tag     uint64
	length  uint64 // of the message; of a batch the number of messages
	number  uint32 // of the message in finish, accept and written frames
	key     uint32 // of announced or accepted memory
	address uint64 // of that memory
}

// name returns the tag of an active message.
func name(id uint16, header int) uint64 { return uint64(header)<<32 | uint64(id) }

// id and header return the parts of the tag of an active message.
func (h *Header) id() uint16  { return uint16(h.tag) }
func (h *Header) header() int { return int(h.tag >> 32) }

// Put writes the header to b, which has at least HeaderLen bytes.
func (h *Header) Put(b []byte) {
	be := binary.BigEndian
	b[0], b[1], b[2], b[3] = version, byte(h.kind), h.flags, 0
	be.PutUint16(b[4:], h.credits)
	be.PutUint16(b[6:], h.active)
	be.PutUint64(b[8:], h.tag)
	be.PutUint64(b[16:], h.length)
	be.PutUint32(b[24:], h.number)
	be.PutUint32(b[28:], h.key)
	be.PutUint64(b[32:], h.address)
}

// Size returns the length of a frame.
func Size(payload [][]byte) int {
	n := HeaderLen
	for _, x := range payload {
		n += len(x)
	}
	return n
}

// PutFrame writes a frame to b, which has at least its Size, and returns the frame.
func (h *Header) PutFrame(b []byte, payload [][]byte) int {
	h.Put(b)
	n := HeaderLen
	for _, x := range payload {
		n += copy(b[n:], x)
	}
	return n
}

// parse reads the header at the start of b.
func (h *Header) parse(b []byte) error {
	switch {
	case len(b) < HeaderLen:
		return fmt.Errorf("%w: %d bytes, expected at least %d", ErrFrame, len(b), HeaderLen)
	}
	own := [HeaderLen]byte(b) // in shared memory the peer may change it
	b = own[:]
	switch {
	case b[0] != version:
		return fmt.Errorf("%w: frame of version %d, expected %d", ErrVersion, b[0], version)
	case kind(b[1]) == 0 || kind(b[1]) >= kinds:
		return fmt.Errorf("%w: expected a kind from 1 to %d, found %d", ErrFrame, kinds-1, b[1])
	}
	be := binary.BigEndian
	*h = Header{
		kind: kind(b[1]), flags: b[2], credits: be.Uint16(b[4:]), active: be.Uint16(b[6:]), tag: be.Uint64(b[8:]), length: be.Uint64(b[16:]),
		number: be.Uint32(b[24:]), key: be.Uint32(b[28:]), address: be.Uint64(b[32:]),
	}
	return nil
}

// joins reports whether the frame is a header alone, behind which another frame may follow in the same
// SEND. On a long path many such frames are on their way, which would need as many places in the queue.
func (h *Header) joins() bool {
	switch h.kind {
	case kindAnnounce, kindAccept:
		return h.flags&flagSegments == 0
	case kindFinish, kindCredit, kindWindow, kindWritten:
		return true
	}
	return false
}

// Joins reports whether a frame may follow another one in the same SEND. Frames that are not of this package
// have a SEND of their own.
func Joins(frame, next []byte) bool {
	var h Header
	return len(next) >= HeaderLen && next[0] == version && len(frame) == HeaderLen && h.parse(frame) == nil && h.joins()
}

// A Segment is a piece of a sender's memory.
type Segment struct {
	Address uint64
	Key     uint32
	Length  int
}

// appendSegments appends the list of pieces at the end of a frame.
func appendSegments(b []byte, list []Segment) []byte {
	for _, s := range list {
		b = binary.BigEndian.AppendUint64(b, s.Address)
		b = binary.BigEndian.AppendUint32(b, s.Key)
		b = binary.BigEndian.AppendUint32(b, uint32(s.Length))
	}
	return b
}

// segments appends the pieces of memory listed in a frame to a list, for each rail all of
// them. b is the part of the frame after the header and the message's header.
func (h *Header) segments(list []Segment, b []byte, rails int) ([]Segment, error) {
	if h.length > maxLength {
		return list, fmt.Errorf("%w: message of %d bytes", ErrFrame, h.length)
	}
	if h.flags&flagSegments == 0 {
		if len(b) > 0 || rails > 1 && h.length > 0 {
			return list, fmt.Errorf("%w: %d bytes after an announced message", ErrFrame, len(b))
		}
		return append(list, Segment{h.address, h.key, int(h.length)}), nil
	}
	if len(b)%segmentLen != 0 || len(b) > MaxSegments*segmentLen {
		return list, fmt.Errorf("%w: pieces in %d bytes, expected at most %d of %d", ErrFrame, len(b), MaxSegments, segmentLen)
	}
	if rails > 1 {
		return h.railSegments(list, b, rails)
	}
	return h.appendPieces(list, b)
}

// railSegments implements segments for a connection of several rails.
func (h *Header) railSegments(list []Segment, b []byte, rails int) (_ []Segment, err error) {
	n := len(b) / rails
	if n%segmentLen != 0 || n*rails != len(b) {
		return list, fmt.Errorf("%w: pieces in %d bytes, expected the same for each of %d rails", ErrFrame, len(b), rails)
	}
	for ; len(b) > 0 && err == nil; b = b[n:] {
		list, err = h.appendPieces(list, b[:n])
	}
	return list, err
}

// appendPieces appends pieces whose total length is the message's.
func (h *Header) appendPieces(list []Segment, b []byte) ([]Segment, error) {
	left := h.length
	for ; len(b) > 0; b = b[segmentLen:] {
		be := binary.BigEndian
		n := be.Uint32(b[12:])
		if n == 0 || uint64(n) > left {
			return list, fmt.Errorf("%w: piece of %d bytes, %d bytes are left of the message", ErrFrame, n, left)
		}
		left -= uint64(n)
		list = append(list, Segment{be.Uint64(b), be.Uint32(b[8:]), int(n)})
	}
	if left > 0 {
		return list, fmt.Errorf("%w: no pieces for %d bytes of the message", ErrFrame, left)
	}
	return list, nil
}

// maxLength bounds the length of an announced message.
const maxLength = 1 << 31
