package ib

import "encoding/binary"

// FlowControlLen is the length of a link packet. Delimiters distinguish link packets from
// data packets on a link (IBTA 7.9.4). Softrdma tells them apart by their length, which no data
// packet has.
const FlowControlLen = 6

// CreditBlock is the number of bytes that one credit stands for (IBTA 7.9.4).
const CreditBlock = 64

// The operations of link packets. Others are reserved, and ignored.
const (
	FlowNormal     = 0 // in states ARMED and ACTIVE
	FlowInitialize = 1 // in state INITIALIZE
)

// Blocks counts credit blocks modulo 4,096, as link packets do.
type Blocks uint16

const blocksMask = 1<<12 - 1

// Add returns b advanced by n blocks.
func (b Blocks) Add(n int) Blocks { return (b + Blocks(n)) & blocksMask }

// Sub returns how far b is ahead of o, from 0 to 4,095.
func (b Blocks) Sub(o Blocks) int { return int((b - o) & blocksMask) }

// MaxCredit is the largest credit that a receiver may grant. A difference beyond it is a
// negative number.
const MaxCredit = 2048

// A FlowControl is the link packet that grants credit for one virtual lane (IBTA 7.9.4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-----------------------+-------+-----------------------+
//	|  Op   |         FCTBS         |  VL   |         FCCL          |
//	+-------+-----------------------+-------+-----------------------+
//	|             LPCRC             |
//	+-------------------------------+
type FlowControl struct {
	Op    uint8
	VL    uint8
	Sent  Blocks // FCTBS: blocks that this end has sent on the VL since the link came up
	Limit Blocks // FCCL: the count up to which the other end may send
}

// Put writes the packet with its CRC to b, which has at least FlowControlLen bytes.
func (f *FlowControl) Put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(f.Op&0xf)<<28|uint32(f.Sent&blocksMask)<<16|uint32(f.VL&0xf)<<12|uint32(f.Limit&blocksMask))
	PutVCRC(b[:FlowControlLen])
}

// Parse reads a link packet and reports whether b is one. It does not check the CRC.
func (f *FlowControl) Parse(b []byte) bool {
	if len(b) != FlowControlLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	f.Op, f.VL = uint8(w>>28), uint8(w>>12)&0xf
	f.Sent, f.Limit = Blocks(w>>16)&blocksMask, Blocks(w)&blocksMask
	return true
}

// PacketBlocks returns the number of blocks that a packet of a length takes of a receiver's
// buffer. The length is the LRH's, which leaves out the VCRC.
func PacketBlocks(words uint16) int { return (4*int(words) + CreditBlock - 1) / CreditBlock }
