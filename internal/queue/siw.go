package queue

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/memory"
)

// The second layout is the one that Linux's soft iWARP shares with its user-space driver
// (siw-abi.h). It has no indices: each entry has a flag that says which side owns it. Send and
// receive requests are copied into a ring of this process when the consumer asks for them, so
// that they cannot change after they were checked. Completions are written to it directly.

// SIWMaxSGE is the maximum number of entries of a request in siw's layout.
const SIWMaxSGE = 6

// SIWMaxInline is the maximum number of bytes of inline data, which occupies all entries but
// the first.
const SIWMaxInline = (SIWMaxSGE - 1) * SGELen

// The operations of siw's layout (enum siw_opcode).
const (
	siwWrite    = 0
	siwRead     = 1
	siwSend     = 3
	siwSendInv  = 5
	siwFetchAdd = 6
	siwCompare  = 7
	siwReceive  = 8
)

// The flags of siw's layout (enum siw_wqe_flags).
const (
	SIWValid     = 1 << 0 // the consumer owns the entry
	SIWInline    = 1 << 1
	SIWSignaled  = 1 << 2
	SIWSolicited = 1 << 3
	SIWReadFence = 1 << 4
	siwRemInval  = 1 << 5
)

// siwHead is the word after the ID of a request: 16 bits of flags, the number of entries and
// the operation, in native byte order. It is stored last, because it hands the entry over.
type siwHead struct{ word atomic.Uint32 }

func (h *siwHead) load() (flags uint16, sges, op uint8) {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], h.word.Load())
	return binary.NativeEndian.Uint16(b[:]), b[2], b[3]
}

// Post hands the entry to the consumer, as the driver does; flags are without SIWValid.
func (h *siwHead) Post(flags uint16, sges, op uint8) {
	b := [4]byte{2: sges, 3: op}
	binary.NativeEndian.PutUint16(b[:], flags|SIWValid)
	h.word.Store(binary.NativeEndian.Uint32(b[:]))
}

// Posted reports whether the consumer owns the entry.
func (h *siwHead) Posted() bool {
	flags, _, _ := h.load()
	return flags&SIWValid != 0
}

// release returns the entry to the driver.
func (h *siwHead) release() { h.word.Store(0) }

// SIWSQE is siw_sqe, a send work request.
type SIWSQE struct {
	ID uint64
	siwHead
	RKey  uint32 // of the peer's memory, or to invalidate
	RAddr uint64
	SGE   [SIWMaxSGE]memory.SGE // with inline data the first one has the length, and the data occupies the others
}

// SIWRQE is siw_rqe, a receive work request.
type SIWRQE struct {
	ID uint64
	siwHead
	_   uint32
	SGE [SIWMaxSGE]memory.SGE
}

// SIWCQE is siw_cqe, a completion.
type SIWCQE struct {
	ID uint64
	siwDone
	Bytes  uint32
	ImmInv uint64
	QPN    uint64
}

// siwDone is the word of a completion: 8 bits of flags, the operation and 16
// bits of status.
type siwDone struct{ word atomic.Uint32 }

func (d *siwDone) load() (flags, op uint8, status uint16) {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], d.word.Load())
	return b[0], b[1], binary.NativeEndian.Uint16(b[2:])
}

func (d *siwDone) store(flags, op uint8, status uint16) {
	b := [4]byte{0: flags, 1: op}
	binary.NativeEndian.PutUint16(b[2:], status)
	d.word.Store(binary.NativeEndian.Uint32(b[:]))
}

// siwControl is siw_cq_ctrl, which follows the completions.
type siwControl struct {
	arm atomic.Uint32
	_   uint32
}

// SIWDepth returns the number of entries of a queue in siw's layout that holds at least depth:
// indices run on and are taken modulo it.
func SIWDepth(depth int) int { return 1 << bits.Len(uint(max(depth, 1)-1)) }

// entries views memory as entries in siw's layout. The memory is aligned to 8
// bytes, zeroed and long enough.
func entries[T any](mem []byte, n int) []T {
	var v T
	_ = mem[:n*int(unsafe.Sizeof(v))]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}
