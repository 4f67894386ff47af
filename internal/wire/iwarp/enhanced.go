package iwarp

import "encoding/binary"

const (
	// EnhancedLen is the length of an Enhanced.
	EnhancedLen = 4

	// DepthUnknown instead of a depth leaves it to the programs (RFC 6581 9.1).
	DepthUnknown = 0x3fff
)

// An RTR is a set of frames with which the initiator of a peer-to-peer
// connection may say that it is ready to receive (RFC 6581 9.2).
type RTR uint8

// The frames, all without payload.
const (
	RTRSend RTR = 1 << iota
	RTRWrite
	RTRRead
)

// An Enhanced is the data of the enhanced set-up, in front of the private data
// (RFC 6581 9):
//
//	+-+-+---------------------------+-+-+---------------------------+
//	|A|B|            IRD            |C|D|            ORD            |
//	+-+-+---------------------------+-+-+---------------------------+
//
// A asks for a peer-to-peer connection, B, C and D are RTRSend, RTRWrite and
// RTRRead. IRD is the number of RDMA Reads and atomics that the sender serves at a time,
// ORD the number that it asks the peer to serve.
type Enhanced struct {
	PeerToPeer bool
	RTR        RTR
	IRD, ORD   uint16 // 14 bits
}

// Parse reads an Enhanced. It reports whether b has EnhancedLen bytes.
func (e *Enhanced) Parse(b []byte) bool {
	if len(b) < EnhancedLen {
		return false
	}
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	*e = Enhanced{PeerToPeer: ird&0x8000 != 0, IRD: ird & 0x3fff, ORD: ord & 0x3fff}
	if ird&0x4000 != 0 {
		e.RTR |= RTRSend
	}
	if ord&0x8000 != 0 {
		e.RTR |= RTRWrite
	}
	if ord&0x4000 != 0 {
		e.RTR |= RTRRead
	}
	return true
}

// Put writes the Enhanced to b, which has room for it.
func (e *Enhanced) Put(b []byte) {
	ird, ord := e.IRD&0x3fff, e.ORD&0x3fff
	if e.PeerToPeer {
		ird |= 0x8000
	}
	if e.RTR&RTRSend != 0 {
		ird |= 0x4000
	}
	if e.RTR&RTRWrite != 0 {
		ord |= 0x8000
	}
	if e.RTR&RTRRead != 0 {
		ord |= 0x4000
	}
	binary.BigEndian.PutUint16(b, ird)
	binary.BigEndian.PutUint16(b[2:], ord)
}
