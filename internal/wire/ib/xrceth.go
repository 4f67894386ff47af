package ib

import "encoding/binary"

// An XRCETH is the extended transport header of each XRC request (annex A14).
//
//	+---------------+-----------------------------------------------+
//	|   Reserved    |              Shared receive queue             |
//	+---------------+-----------------------------------------------+
type XRCETH struct {
	SRQN uint32 // 24 bits: number of the peer's XRC shared receive queue
}

func (h *XRCETH) parse(b []byte) { h.SRQN = binary.BigEndian.Uint32(b) & 0xffffff }

func (h *XRCETH) put(b []byte) { binary.BigEndian.PutUint32(b, h.SRQN&0xffffff) }
