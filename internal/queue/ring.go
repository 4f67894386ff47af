// Package queue is the device's hardware interface: work queues and completion queues as rings
// of fixed layout in plain memory. Each has one producer and one consumer, with indices
// published by atomics. In one process the memory belongs to the heap; between processes it is
// shared and works the same way.
//
// The layout is the one that Linux's Soft RoCE shares with its user-space driver
// (rdma_user_rxe.h): header, send and receive work requests and completions have its fields at
// its offsets, so that an unmodified driver can drive these rings. Rings hold one entry less
// than they have slots. Requests from queues in the layout of Linux's soft iWARP (siw.go) are
// copied into such rings.
//
// The package has no protocol, owns no memory regions and never blocks.
package queue

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// header is rxe_queue_buf. Each index has a separate cache line. state is an extension of this
// module, where the layout has nothing.
type header struct {
	log2ElemSize uint32
	indexMask    uint32
	state        atomic.Uint32
	_            [29]uint32
	producer     atomic.Uint32
	_            [31]uint32
	consumer     atomic.Uint32
	_            [31]uint32
}

const headerLen = int(unsafe.Sizeof(header{}))

// A Ring is a ring of equal elements. One goroutine at a time may produce and one may consume;
// the two need no lock. It allocates its memory with its first entry, because most queue pairs
// of a large machine are idle.
type Ring struct {
	h        atomic.Pointer[header] // the elements follow it; nil before the first entry
	mask     uint32
	log2     uint32
	borrowed bool // the memory belongs to another owner
}

// RingLen returns the length in bytes of the memory of a ring for at least depth
// entries of elem bytes each.
func RingLen(depth, elem int) int {
	return headerLen + slots(depth)<<log2(elem)
}

// RingDepth returns how many entries a ring holds that is made for at least depth entries.
func RingDepth(depth int) int { return slots(depth) - 1 }

func slots(depth int) int { return 1 << bits.Len(uint(depth)) } // one stays empty
func log2(elem int) int   { return bits.Len(uint(elem - 1)) }

// init makes the ring on mem, zeroed and aligned to 8 bytes, which the caller keeps until the
// ring is no longer used; nil allocates it.
func (r *Ring) init(mem []byte, depth, elem int) {
	r.mask = uint32(slots(depth) - 1)
	r.log2 = uint32(log2(elem))
	if mem != nil {
		_ = mem[:RingLen(depth, elem)] // check the length
		r.borrowed = true
		r.publish((*header)(unsafe.Pointer(unsafe.SliceData(mem))))
	}
}

// own gives the ring memory of its own. Words have the alignment of the
// elements' fields, and the collector need not look into them.
//
//go:noinline
func (r *Ring) own() *header { return r.publish(r.alloc()) }

func (r *Ring) alloc() *header {
	words := make([]uint64, (headerLen+int(r.mask+1)<<r.log2)/8)
	return (*header)(unsafe.Pointer(unsafe.SliceData(words)))
}

// detach moves a ring with its entries from borrowed memory to memory of its own. The borrowed
// memory may then be freed, and nothing more is posted. The consumer calls it.
func (r *Ring) detach() {
	old := r.h.Load()
	if !r.borrowed || old == nil {
		return
	}
	h := r.alloc()
	h.log2ElemSize, h.indexMask = r.log2, r.mask
	i, end := old.consumer.Load()&r.mask, old.producer.Load()&r.mask
	h.consumer.Store(i)
	h.producer.Store(end)
	for ; i != end; i = r.Next(i) {
		at := uintptr(headerLen) + uintptr(i)<<r.log2
		n := 1 << r.log2
		copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), at)), n), unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(old), at)), n))
	}
	r.h.Store(h)
	r.borrowed = false
}

func (r *Ring) publish(h *header) *header {
	h.log2ElemSize, h.indexMask = r.log2, r.mask
	if !r.h.CompareAndSwap(nil, h) {
		return r.h.Load()
	}
	return h
}

// Trim makes a ring shorter that has had no entry. It reports whether it did. Nothing is produced or consumed
// meanwhile.
func (r *Ring) Trim(depth int) bool {
	if r.h.Load() != nil || depth > r.Depth() {
		return false
	}
	r.mask = uint32(slots(depth) - 1)
	return true
}

// Depth returns how many entries the ring holds.
func (r *Ring) Depth() int { return int(r.mask) }

// Len returns how many entries it holds now.
func (r *Ring) Len() int {
	h := r.h.Load()
	if h == nil {
		return 0
	}
	return int((h.producer.Load() - h.consumer.Load()) & r.mask)
}

// Full reports whether there is no room for another entry.
func (r *Ring) Full() bool { return r.Len() == int(r.mask) }

// Producer returns the index at which the next entry is produced.
func (r *Ring) Producer() uint32 {
	h := r.h.Load()
	if h == nil {
		return 0
	}
	return h.producer.Load() & r.mask
}

// Consumer returns the index of the oldest entry.
func (r *Ring) Consumer() uint32 {
	h := r.h.Load()
	if h == nil {
		return 0
	}
	return h.consumer.Load() & r.mask
}

// Next returns the index behind i.
func (r *Ring) Next(i uint32) uint32 { return (i + 1) & r.mask }

// Distance returns how many entries lie from index a up to index b.
func (r *Ring) Distance(a, b uint32) int { return int((b - a) & r.mask) }

// Publish makes entries before index i visible to the consumer.
func (r *Ring) Publish(i uint32) {
	if h := r.h.Load(); h != nil { // otherwise there are none
		h.producer.Store(i & r.mask)
	}
}

// Release returns entries before index i to the producer.
func (r *Ring) Release(i uint32) {
	if h := r.h.Load(); h != nil {
		h.consumer.Store(i & r.mask)
	}
}

// SetState tells the program that shares the ring's memory the state of the ring's object: for
// a send queue the state of its queue pair (qp.State), for a completion queue that it
// overflowed (1). Memory that is not shared has no state.
func (r *Ring) SetState(s uint32) {
	if h := r.h.Load(); h != nil {
		h.state.Store(s)
	}
}

// State returns the last state of SetState, 0 before. The device never reads it.
func (r *Ring) State() uint32 {
	if h := r.h.Load(); h != nil {
		return h.state.Load()
	}
	return 0
}

func (r *Ring) at(i uint32) unsafe.Pointer {
	h := r.h.Load()
	if h == nil {
		h = r.own()
	}
	return unsafe.Add(unsafe.Pointer(h), uintptr(headerLen)+uintptr(i&r.mask)<<r.log2)
}
