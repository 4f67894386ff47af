package queue

import (
	"unsafe"

	"softrdma/internal/memory"
)

// RecvWQE is rxe_recv_wqe without its scatter entries, which follow it.
type RecvWQE struct {
	WRID   uint64
	_      [2]uint32
	Length uint32 // room in bytes
	_      uint32
	_      uint32
	NumSGE uint32
	_      uint32
	_      uint32
}

// RecvWQELen is the length of a receive work request without entries.
const RecvWQELen = int(unsafe.Sizeof(RecvWQE{}))

// A RecvRing is a receive queue, of a queue pair or shared.
type RecvRing struct {
	Ring
	maxSGE int
	siw    *siwReceives // where requests are posted, if not nil; otherwise in the ring
}

// NewRecvRing makes a receive queue for depth requests of at most maxSGE entries.
func NewRecvRing(depth, maxSGE int) *RecvRing { return RecvRingOn(nil, depth, maxSGE) }

// RecvRingOn is NewRecvRing on memory that another process may share (see
// SendRingOn), of at least RecvRingLen bytes.
func RecvRingOn(mem []byte, depth, maxSGE int) *RecvRing {
	r := &RecvRing{maxSGE: maxSGE}
	r.init(mem, depth, RecvWQELen+maxSGE*SGELen)
	return r
}

// RecvRingLen returns the length of the memory of a receive queue.
func RecvRingLen(depth, maxSGE int) int { return RingLen(depth, RecvWQELen+maxSGE*SGELen) }

// MaxSGE returns how many entries a request may have.
func (r *RecvRing) MaxSGE() int { return r.maxSGE }

// InPlace reports whether requests are posted to the ring itself, like SendRing.InPlace.
func (r *RecvRing) InPlace() bool { return r.siw == nil }

// Len returns how many requests it holds now.
func (r *RecvRing) Len() int {
	if r.siw != nil {
		r.collect()
	}
	return r.Ring.Len()
}

// Producer returns the index at which the next request is produced.
func (r *RecvRing) Producer() uint32 {
	if r.siw != nil {
		r.collect()
	}
	return r.Ring.Producer()
}

// At returns the request at index i; it is valid until the index is released.
func (r *RecvRing) At(i uint32) *RecvWQE { return (*RecvWQE)(r.at(i)) }

// SGEs returns the entries of the request at index i, at most MaxSGE.
func (r *RecvRing) SGEs(i uint32) []memory.SGE {
	n := min(r.At(i).NumSGE, uint32(r.maxSGE))
	return unsafe.Slice((*memory.SGE)(unsafe.Add(r.at(i), RecvWQELen)), n)
}

// SGERoom returns the room for entries of the request at index i, for the producer.
func (r *RecvRing) SGERoom(i uint32) []memory.SGE {
	return unsafe.Slice((*memory.SGE)(unsafe.Add(r.at(i), RecvWQELen)), r.maxSGE)
}
