package ib

import (
	"encoding/binary"

	"softrdma/internal/crc"
)

// MaxNativeLen is the length of the longest InfiniBand packet: a path MTU of 4,096, all
// headers and both CRCs (IBTA 7.7.8).
const MaxNativeLen = 4096 + 126

// A Native is a whole packet as it goes over an InfiniBand link.
//
//	LRH | [GRH] | BTH, extended headers, payload, padding | ICRC | VCRC
type Native struct {
	LRH  LRH
	GRH  GRH    // if LRH.Next is GlobalGRH
	Body []byte // from behind the LRH, or the GRH, to the end of the ICRC; aliases the receive buffer
}

// Parse reads a packet from its LRH to its VCRC, neither of whose CRCs it checks. The Body
// is for Packet.Parse unless the packet is a raw one. On a fault the fields up to it are
// set, as far as bytes were there.
func (p *Native) Parse(b []byte) Fault {
	if !p.LRH.Parse(b) {
		return Short
	}
	n := 4 * int(p.LRH.Words)
	switch {
	case p.LRH.Version != 0:
		return BadLinkVersion
	case n < LRHLen || len(b) < n+VCRCLen:
		return Short
	case len(b) > n+VCRCLen:
		return BadLength
	}
	p.Body = b[LRHLen:n:n]
	if p.LRH.Next < LocalBTH {
		return OK
	}
	if p.LRH.Next == GlobalGRH {
		switch {
		case len(p.Body) < GRHLen:
			return Short
		case !p.GRH.Parse(p.Body) || p.GRH.NextHeader != NextBTH:
			return BadGRH
		case int(p.GRH.PayLen) != len(p.Body)-GRHLen:
			return BadLength
		}
		p.Body = p.Body[GRHLen:]
	}
	if len(p.Body) < BTHLen+ICRCLen {
		return Short
	}
	return OK
}

// HeaderLen returns the length of the LRH and the GRH, if the packet has one.
func (h *LRH) HeaderLen() int {
	if h.Next == GlobalGRH {
		return LRHLen + GRHLen
	}
	return LRHLen
}

// AppendNative appends a packet with its CRCs and sets the lengths of its headers. grh is
// used if lrh.Next is GlobalGRH. The padding is p.Pad, as for Packet.Append.
func AppendNative(b []byte, lrh LRH, grh *GRH, p *Packet) []byte {
	start := len(b)
	n := lrh.HeaderLen() + p.HeaderLen() + len(p.Payload) + int(p.Pad) + ICRCLen
	lrh.Words = uint16(n / 4)
	b = append(b, make([]byte, LRHLen)...)
	lrh.Put(b[start:])
	if lrh.Next == GlobalGRH {
		g := *grh
		g.PayLen, g.NextHeader = uint16(n-LRHLen-GRHLen), NextBTH
		b = append(b, make([]byte, GRHLen)...)
		g.Put(b[start+LRHLen:])
	}
	b = append(p.Append(b), make([]byte, ICRCLen+VCRCLen)...)
	end := len(b) - VCRCLen
	PutICRC(b[end-ICRCLen:], NativeICRC(b[start:end]))
	PutVCRC(b[start:])
	return b
}

// NativeICRC computes the ICRC of a packet given from its LRH to its ICRC (the last four
// bytes, not read), which has passed Native.Parse and is no raw packet.
//
// IBTA 7.8.1: a local packet is covered with its LRH, in which the VL is masked. Routers
// replace the LRH of a global packet, so that ones stand in its place, and in the fields of
// the GRH that routers change. The BTH's resv8a is masked in both.
func NativeICRC(packet []byte) uint32 {
	const (
		maskVL      = 0xf0          // in the first byte of the LRH
		maskResv8a  = 0xff << 32    // in the first eight bytes of the BTH
		maskGRH     = 0xffffff0f    // in the first four: traffic class and flow label
		maskHop     = 0xff << 56    // in the first eight: hop limit
		restOfGRH   = GRHLen - 8    // the GIDs
		wordOfDGID  = restOfGRH - 4 // the last word goes with the BTH
		firstOfBody = 8
	)
	word := binary.LittleEndian
	body := packet[:len(packet)-ICRCLen]
	if NextHeader(packet[1]&3) != GlobalGRH {
		low := word.Uint64(body) | maskVL
		return crc.Behind(low^0xffffffff, word.Uint64(body[LRHLen:])|maskResv8a, crc.IEEE, body[LRHLen+firstOfBody:])
	}
	const ones = 1<<64 - 1
	grh, bth := body[LRHLen:LRHLen+GRHLen], body[LRHLen+GRHLen:]
	gids := grh[8:]
	sum := crc.Behind(ones^0xffffffff, word.Uint64(grh)|maskGRH|maskHop, crc.IEEE, gids[:wordOfDGID])
	low := uint64(^sum^word.Uint32(gids[wordOfDGID:])) | uint64(word.Uint32(bth))<<32
	return crc.Behind(low, word.Uint64(bth[4:])|0xff, crc.IEEE, bth[BTHLen:])
}
