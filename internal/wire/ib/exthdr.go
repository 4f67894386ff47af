package ib

import "encoding/binary"

// Lengths of the extended transport headers in bytes.
const (
	XRCETHLen       = 4
	DETHLen         = 8
	FETHLen         = 4
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4

	// MaxHeaderLen is the longest run of headers of any opcode.
	MaxHeaderLen = BTHLen + XRCETHLen + AtomicETHLen
)

func (h Headers) length() (n int) {
	for i, l := range [...]int{XRCETHLen, DETHLen, FETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen, IETHLen} {
		if h&(1<<i) != 0 {
			n += l
		}
	}
	return n
}

// A DETH is the datagram extended transport header (IBTA 9.3.2).
//
//	+---------------------------------------------------------------+
//	|                             Q_Key                             |
//	+---------------+-----------------------------------------------+
//	|   Reserved    |                   Source QP                   |
//	+---------------+-----------------------------------------------+
type DETH struct {
	QKey   uint32
	SrcQPN uint32 // 24 bits
}

func (h *DETH) parse(b []byte) {
	h.QKey = binary.BigEndian.Uint32(b)
	h.SrcQPN = binary.BigEndian.Uint32(b[4:]) & 0xffffff
}

func (h *DETH) put(b []byte) {
	binary.BigEndian.PutUint32(b, h.QKey)
	binary.BigEndian.PutUint32(b[4:], h.SrcQPN&0xffffff)
}

// A RETH is the RDMA extended transport header (IBTA 9.3.3).
//
//	+---------------------------------------------------------------+
//	|                     Virtual Address (63-32)                   |
//	+---------------------------------------------------------------+
//	|                     Virtual Address (31-0)                    |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                           DMA Length                          |
//	+---------------------------------------------------------------+
type RETH struct {
	Addr   uint64
	RKey   uint32
	Length uint32 // of the whole message, at most 2^31
}

func (h *RETH) parse(b []byte) {
	h.Addr = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.Length = binary.BigEndian.Uint32(b[12:])
}

func (h *RETH) put(b []byte) {
	binary.BigEndian.PutUint64(b, h.Addr)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.Length)
}

// An AtomicETH is the atomic extended transport header (IBTA 9.3.4).
//
//	+---------------------------------------------------------------+
//	|                        Virtual Address                        |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                       Swap (or Add) Data                      |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                          Compare Data                         |
//	|                                                               |
//	+---------------------------------------------------------------+
type AtomicETH struct {
	Addr    uint64
	RKey    uint32
	SwapAdd uint64
	Compare uint64
}

func (h *AtomicETH) parse(b []byte) {
	h.Addr = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

func (h *AtomicETH) put(b []byte) {
	binary.BigEndian.PutUint64(b, h.Addr)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}
