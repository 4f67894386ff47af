package ib

import (
	"encoding/binary"

	"softrdma/internal/psn"
)

// A Template is the BTH of the next packet in the middle of a message. All of these
// packets have the same one but for the PSN, which goes up by one, and no extended
// headers. So a sender patches the PSN instead of building each header, and a receiver
// that compares twelve bytes knows about a packet all that parsing the packet before
// told.
type Template struct {
	head uint64 // the first eight bytes
	tail uint32 // the other four
}

// The fields of a BTH as Template and the steering of packets to lanes use them: see
// the diagram of BTH.
const (
	opcodeShift = 56 // in the first eight bytes
	solicited   = 1 << 55
	padMask     = 3 << 52

	ackReq  = 1 << 31 // in the last four
	psnMask = 1<<24 - 1

	// DestQPNOffset and DestQPNMask find the destination QPN in a big-endian word of four
	// bytes.
	DestQPNOffset = 4
	DestQPNMask   = 1<<24 - 1
)

// Follow makes t the template of the packets that follow the one with header h, which is
// not its message's last.
func (t *Template) Follow(h []byte) {
	head, tail := binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:])
	middle := uint64(Opcode(h[0]).Segment(false, false))
	t.head = head&^(0xff<<opcodeShift|solicited|padMask) | middle<<opcodeShift
	t.tail = tail &^ ackReq
	t.Next()
}

// Match reports whether h is the header that t expects.
func (t *Template) Match(h []byte) bool {
	return binary.BigEndian.Uint64(h) == t.head && binary.BigEndian.Uint32(h[8:]) == t.tail
}

// Put writes the header.
func (t *Template) Put(h []byte) {
	binary.BigEndian.PutUint64(h, t.head)
	binary.BigEndian.PutUint32(h[8:], t.tail)
}

// Next advances to the next packet.
func (t *Template) Next() { t.tail = t.tail&^psnMask | (t.tail+1)&psnMask }

// Opcode returns the packets' opcode.
func (t *Template) Opcode() Opcode { return Opcode(t.head >> opcodeShift) }

// PSN returns the next packet's.
func (t *Template) PSN() psn.PSN { return psn.New(t.tail) }
