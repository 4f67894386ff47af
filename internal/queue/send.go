package queue

import (
	"unsafe"

	"softrdma/internal/memory"
)

// An Op is a work request's operation; the numbers are those of ibv_wr_opcode.
type Op uint32

// The operations.
const (
	Write       Op = 0
	WriteImm    Op = 1
	Send        Op = 2
	SendImm     Op = 3
	Read        Op = 4
	CompareSwap Op = 5
	FetchAdd    Op = 6
	LocalInv    Op = 7
	BindMW      Op = 8
	SendInv     Op = 9
	Flush       Op = 14
	AtomicWrite Op = 15 // of the word after the request, which is in the place of inline data
)

// Flags of a send work request; the numbers are those of ibv_send_flags.
type Flags uint32

// The flags.
const (
	Fence     Flags = 1 << 0
	Signaled  Flags = 1 << 1
	Solicited Flags = 1 << 2
	Inline    Flags = 1 << 3
)

// AV is rxe_av, an address vector. rdma-core before 39 names address handles by it.
type AV struct {
	PortNum      uint8
	NetworkType  uint8 // 1 IPv4, 2 IPv6
	DMAC         [6]byte
	DGID         [16]byte
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	_            uint8
	SGIDAddr     [28]byte // sockaddr_in or sockaddr_in6 of the GIDs; unused
	DGIDAddr     [28]byte
}

// SendWQE is rxe_send_wqe without its scatter/gather entries, which follow it. The
// accessors below view its union.
type SendWQE struct {
	WRID   uint64
	SRQN   uint32 // of XRC: the peer's shared receive queue; reserved in rxe's
	Op     Op
	Flags  Flags
	ImmInv uint32 // immediate data in network order, or the R_Key to invalidate
	u      [15]uint64
	_      [2]uint32 // status, state: the kernel's own
	_      uint64    // iova
	_      [6]uint32 // mask, psns, ack length, ssn, read and atomic state
	Length uint32    // of the message, in bytes
	_      uint32
	_      uint32
	NumSGE uint32
	_      uint32
	_      uint32
}

// RDMA is the remote end of a WRITE or READ.
type RDMA struct {
	Addr uint64
	RKey uint32
	_    uint32
}

// FlushTarget is the peer's memory of a FLUSH.
type FlushTarget struct {
	Addr        uint64
	_           uint32 // the length; the rxe provider sets only that of the request
	RKey        uint32
	Placement   uint8
	Selectivity uint8
	_           [6]uint8
}

// Atomic is the remote end and the operands of an atomic.
type Atomic struct {
	Addr       uint64
	CompareAdd uint64 // compare of CompareSwap, addend of FetchAdd
	Swap       uint64
	RKey       uint32
	_          uint32
}

// UD is the destination of a datagram.
type UD struct {
	RemoteQPN  uint32
	RemoteQKey uint32
	PKeyIndex  uint16
	_          uint16
	AHNum      uint32 // of the address handle; 0 means the one with the vector AV
	_          [4]uint32
	AV         AV
}

// MW holds the parameters of a bind.
type MW struct {
	Addr   uint64
	Length uint64
	MRLKey uint32
	MWRKey uint32
	RKey   uint32 // the new key
	Access uint32
}

// RDMA views the union.
func (w *SendWQE) RDMA() *RDMA { return (*RDMA)(unsafe.Pointer(&w.u)) }

// Flush views the union. The length is that of the request.
func (w *SendWQE) Flush() *FlushTarget { return (*FlushTarget)(unsafe.Pointer(&w.u)) }

// Atomic views the union.
func (w *SendWQE) Atomic() *Atomic { return (*Atomic)(unsafe.Pointer(&w.u)) }

// UD views the union.
func (w *SendWQE) UD() *UD { return (*UD)(unsafe.Pointer(&w.u)) }

// MW views the union.
func (w *SendWQE) MW() *MW { return (*MW)(unsafe.Pointer(&w.u)) }

// SGELen is the length of an entry in a ring, bytes.
const SGELen = int(unsafe.Sizeof(memory.SGE{}))

// A SendRing is a send queue.
type SendRing struct {
	Ring
	maxSGE, maxInline int
	siw               *siwSends // where requests are posted, if not nil; otherwise in the ring
}

// SendWQELen is the length of a send work request without entries.
const SendWQELen = int(unsafe.Sizeof(SendWQE{}))

// NewSendRing makes a send queue for depth requests of at most maxSGE entries
// or maxInline bytes of inline data each.
func NewSendRing(depth, maxSGE, maxInline int) *SendRing {
	return SendRingOn(nil, depth, maxSGE, maxInline)
}

// SendRingOn is NewSendRing on memory that another process may share: zeroed, aligned to 8
// bytes, of at least SendRingLen bytes, and owned by the caller.
func SendRingOn(mem []byte, depth, maxSGE, maxInline int) *SendRing {
	r := &SendRing{maxSGE: maxSGE, maxInline: maxInline}
	r.init(mem, depth, sendElem(maxSGE, maxInline))
	return r
}

// SendRingLen returns the length of the memory of a send queue.
func SendRingLen(depth, maxSGE, maxInline int) int {
	return RingLen(depth, sendElem(maxSGE, maxInline))
}

func sendElem(maxSGE, maxInline int) int {
	return SendWQELen + max(maxSGE*SGELen, maxInline, WordLen)
}

// WordLen is the length of the word of an ATOMIC WRITE, in bytes.
const WordLen = 8

// MaxSGE returns how many entries a request may have.
func (r *SendRing) MaxSGE() int { return r.maxSGE }

// MaxInline returns how many bytes of inline data a request may have.
func (r *SendRing) MaxInline() int { return r.maxInline }

// Producer returns the index at which the next request is produced.
func (r *SendRing) Producer() uint32 {
	if r.siw != nil {
		r.collect()
	}
	return r.Ring.Producer()
}

// At returns the request at index i; it is valid until the index is released.
func (r *SendRing) At(i uint32) *SendWQE { return (*SendWQE)(r.at(i)) }

// InPlace reports whether requests are posted to the ring itself, and not copied to it from another
// layout when the consumer looks for them.
func (r *SendRing) InPlace() bool { return r.siw == nil }

// Posted returns the length of the newest message in the ring, or 0. The producer may be
// changing it, so it is a hint. It ignores requests that the consumer first has to copy from
// another layout.
func (r *SendRing) Posted() int {
	i := r.Ring.Producer()
	if r.siw != nil || i == r.Consumer() {
		return 0
	}
	return int(r.At((i - 1) & r.mask).Length)
}

// SGEs returns the entries of the request at index i, at most MaxSGE.
func (r *SendRing) SGEs(i uint32) []memory.SGE { return r.SGEsOf(r.At(i)) }

// SGEsOf returns the entries of a request in the ring, at most MaxSGE.
func (r *SendRing) SGEsOf(w *SendWQE) []memory.SGE {
	n := min(w.NumSGE, uint32(r.maxSGE))
	return unsafe.Slice((*memory.SGE)(unsafe.Add(unsafe.Pointer(w), SendWQELen)), n)
}

// SGERoom returns the room for entries of the request at index i, for the producer.
func (r *SendRing) SGERoom(i uint32) []memory.SGE {
	return unsafe.Slice((*memory.SGE)(unsafe.Add(r.at(i), SendWQELen)), r.maxSGE)
}

// InlineRoom returns the room for inline data of the request at index i.
func (r *SendRing) InlineRoom(i uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.at(i), SendWQELen)), r.maxInline)
}

// Word returns the room for the word of an ATOMIC WRITE at index i. Every request has it.
func (r *SendRing) Word(i uint32) *[WordLen]byte {
	return (*[WordLen]byte)(unsafe.Add(r.at(i), SendWQELen))
}

// InlineData returns the inline data of the request at index i.
func (r *SendRing) InlineData(i uint32) []byte {
	return r.InlineRoom(i)[:min(r.At(i).Length, uint32(r.maxInline))]
}
