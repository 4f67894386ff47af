package ib

import "encoding/binary"

// LRHLen is the length of a local route header.
const LRHLen = 8

// A NextHeader says what follows a local route header (IBTA 7.7.5).
type NextHeader uint8

// The values of LRH.Next.
const (
	RawEtherType NextHeader = iota // a raw packet with a raw header
	RawIPv6                        // a raw packet with an IPv6 header
	LocalBTH                       // a packet that stays in its subnet
	GlobalGRH                      // a packet with a global route header
)

// LIDs and virtual lanes with a meaning of their own (IBTA 4.1.3, 7.6.3).
const (
	PermissiveLID LID = 0xffff // the port that receives the packet
	MulticastLID  LID = 0xc000 // the first one; the last one precedes PermissiveLID

	VLs          = 16
	ManagementVL = 15 // has no flow control
)

// A LID is a local identifier: the address of a port in its subnet.
type LID uint16

// Multicast reports whether the LID belongs to a multicast group.
func (l LID) Multicast() bool { return l >= MulticastLID && l != PermissiveLID }

// An LRH is a local route header (IBTA 7.7).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+-------+---+---+-------------------------------+
//	|  VL   | LVer  |  SL   |Rsv|LNH|    Destination Local ID       |
//	+-------+-------+-------+---+---+-------------------------------+
//	| Reserv. |    Packet Length    |       Source Local ID         |
//	+---------+---------------------+-------------------------------+
type LRH struct {
	VL      uint8 // virtual lane of this link, 4 bits
	Version uint8 // link version, 0
	SL      uint8 // service level, 4 bits
	Next    NextHeader
	DLID    LID
	Words   uint16 // packet length from the LRH to the end of the ICRC, in words of 4 bytes, 11 bits
	SLID    LID
}

// Parse reads the header at the beginning of b and reports whether b is long enough.
func (h *LRH) Parse(b []byte) bool {
	if len(b) < LRHLen {
		return false
	}
	w := binary.BigEndian.Uint64(b)
	h.VL, h.Version, h.SL, h.Next = uint8(w>>60), uint8(w>>56)&0xf, uint8(w>>52)&0xf, NextHeader(w>>48)&3
	h.DLID, h.Words, h.SLID = LID(w>>32), uint16(w>>16)&maxWords, LID(w)
	return true
}

const maxWords = 1<<11 - 1

// Put writes the header to b, which has at least LRHLen bytes.
func (h *LRH) Put(b []byte) {
	binary.BigEndian.PutUint64(b, uint64(h.VL&0xf)<<60|uint64(h.Version&0xf)<<56|uint64(h.SL&0xf)<<52|uint64(h.Next&3)<<48|
		uint64(h.DLID)<<32|uint64(h.Words&maxWords)<<16|uint64(h.SLID))
}
