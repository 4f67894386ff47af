package tagged

import (
	"encoding/binary"
	"fmt"
)

// HeaderLen is the length of the header of each frame.
const HeaderLen = 40

// version is the version of the format. Workers of different versions cannot communicate.
const version = 1

// A kind is the type of a frame.
type kind uint8

const (
	kindEager    kind = iota + 1 // a message, whose bytes follow the header
	kindAnnounce                 // a message whose bytes the receiver reads from the sender's memory
	kindFinish                   // a message was matched and, if it was announced, read
	kindCredit                   // only credits
	kinds
)

// The flags of a frame.
const (
	flagSync = 1 << iota // finish this eager message when it is matched
	flagFull             // unmatched messages hold all credits: announce further messages
)

// A Header is the beginning of each frame.
//
//	 0               1               2               3
//	+---------------+---------------+---------------+---------------+
//	|    version    |     kind      |     flags     |   reserved    |
//	+---------------+---------------+---------------+---------------+
//	|            credits            |           reserved            |
//	+---------------+---------------+---------------+---------------+
//	|                         tag (8 bytes)                         |
//	|                        length (8 bytes)                       |
//	|                number of the message (4 bytes)                |
//	|                         key (4 bytes)                         |
//	|                       address (8 bytes)                       |
//	+---------------------------------------------------------------+
type Header struct {
	kind    kind
	flags   uint8
	credits uint16 // eager messages that the sender of the frame has matched since the last frame
	tag     uint64
	length  uint64
	number  uint32 // by which a finish names the message
	key     uint32 // of an announced message
	address uint64 // of an announced message in the sender's memory
}

// Put writes the header to b, which has at least HeaderLen bytes.
func (h *Header) Put(b []byte) {
	be := binary.BigEndian
	b[0], b[1], b[2], b[3] = version, byte(h.kind), h.flags, 0
	be.PutUint16(b[4:], h.credits)
	be.PutUint16(b[6:], 0)
	be.PutUint64(b[8:], h.tag)
	be.PutUint64(b[16:], h.length)
	be.PutUint32(b[24:], h.number)
	be.PutUint32(b[28:], h.key)
	be.PutUint64(b[32:], h.address)
}

// parse reads the header at the beginning of b.
func (h *Header) parse(b []byte) error {
	switch {
	case len(b) < HeaderLen:
		return fmt.Errorf("%w: %d bytes, expected at least %d", ErrFrame, len(b), HeaderLen)
	case b[0] != version:
		return fmt.Errorf("%w: frame of version %d, expected %d", ErrVersion, b[0], version)
	case kind(b[1]) == 0 || kind(b[1]) >= kinds:
		return fmt.Errorf("%w: expected a kind from 1 to %d, found %d", ErrFrame, kinds-1, b[1])
	}
	be := binary.BigEndian
	*h = Header{
		kind: kind(b[1]), flags: b[2], credits: be.Uint16(b[4:]), tag: be.Uint64(b[8:]), length: be.Uint64(b[16:]),
		number: be.Uint32(b[24:]), key: be.Uint32(b[28:]), address: be.Uint64(b[32:]),
	}
	return nil
}
