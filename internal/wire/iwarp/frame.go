package iwarp

import "encoding/binary"

// A Revision is MPA's: 1 of RFC 5044, 2 of RFC 6581.
const (
	Revision1 = 1
	Revision2 = 2
)

const (
	// FrameLen is the length of a start-up frame without its private data.
	FrameLen = 20

	// MaxPrivate is how many bytes of private data a frame may carry; those of
	// Enhanced count.
	MaxPrivate = 512
)

const (
	keyRequest = "MPA ID Req Frame"
	keyReply   = "MPA ID Rep Frame"
)

// FrameFlags are the flags of a start-up frame.
type FrameFlags uint8

// The flags. Markers asks the peer to send markers. CRCs are used if either side asks
// for them. Only replies have Rejected. With Enhanced the private data begin with an
// Enhanced (RFC 6581 6).
const (
	FlagMarkers  FrameFlags = 0x80
	FlagCRC      FrameFlags = 0x40
	FlagRejected FrameFlags = 0x20
	FlagEnhanced FrameFlags = 0x10

	// Reserved as well. Linux's siw sets it to say that it accepts FPDUs longer than TCP's
	// segments, which not all hardware does.
	FlagLarge FrameFlags = 0x08

	// Reserved by RFC 5044 7.1.1: sent as zero and ignored. RFC 7306 leaves open how ends
	// agree on its extensions. Two softrdma ends use these bits: a request offers, a reply
	// accepts. They differ because Linux's siw replies with the flags of the request.
	FlagExtOffer FrameFlags = 0x04
	FlagExtTaken FrameFlags = 0x02
)

// A FrameFault says what is wrong with a start-up frame.
type FrameFault uint8

// The faults.
const (
	FrameOK FrameFault = iota
	FrameShort
	FrameKey
)

// A Frame is a request or reply frame without its private data, the first
// bytes of either direction of a stream (RFC 5044 7.1.1, RFC 6581 6):
//
//	+---------------------------------------------------------------+
//	|                  Key (16 bytes of text)                       |
//	+-+-+-+-+-------+---------------+-------------------------------+
//	|M|C|R|S| Res   |      Rev      |     Length of private data    |
//	+-+-+-+-+-------+---------------+-------------------------------+
type Frame struct {
	Reply    bool
	Flags    FrameFlags
	Revision uint8
	Private  uint16 // length of the private data behind it
}

// Parse reads a frame.
func (f *Frame) Parse(b []byte) FrameFault {
	if len(b) < FrameLen {
		return FrameShort
	}
	switch string(b[:len(keyRequest)]) {
	case keyRequest:
		f.Reply = false
	case keyReply:
		f.Reply = true
	default:
		return FrameKey
	}
	f.Flags, f.Revision, f.Private = FrameFlags(b[16]), b[17], binary.BigEndian.Uint16(b[18:])
	return FrameOK
}

// Put writes the frame to b, which has room for it.
func (f *Frame) Put(b []byte) {
	key := keyRequest
	if f.Reply {
		key = keyReply
	}
	copy(b, key)
	b[16], b[17] = byte(f.Flags), f.Revision
	binary.BigEndian.PutUint16(b[18:], f.Private)
}
