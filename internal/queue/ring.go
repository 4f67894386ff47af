// Package queue is the device's hardware interface: work queues and completion
// queues as rings of fixed layout in plain memory, one producer and one
// consumer each, with indices published by atomics. In one process the memory
// is the heap's; between processes it is shared and nothing else changes.
//
// The layout is the one that Linux's Soft RoCE shares with its user-space
// driver (rdma_user_rxe.h): header, send and receive work requests and
// completions have its fields at its offsets, so that an unmodified driver can
// drive these rings. Rings hold one entry less than they have slots.
//
// The package does no protocol, owns no memory regions and never blocks.
package queue

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// header is rxe_queue_buf: the indices stand on cache lines of their own.
type header struct {
	log2ElemSize uint32
	indexMask    uint32
	_            [30]uint32
	producer     atomic.Uint32
	_            [31]uint32
	consumer     atomic.Uint32
	_            [31]uint32
}

const headerLen = int(unsafe.Sizeof(header{}))

// A Ring is a ring of equal elements. One goroutine at a time may produce and
// one may consume; the two need no lock between them.
type Ring struct {
	h    *header
	data unsafe.Pointer
	mask uint32
	log2 uint32
	mem  []uint64 // keeps the memory alive and aligned
}

// RingLen is the length in bytes of the memory of a ring for at least depth
// entries of elem bytes each.
func RingLen(depth, elem int) int {
	return headerLen + slots(depth)<<log2(elem)
}

func slots(depth int) int { return 1 << bits.Len(uint(depth)) } // one stays empty
func log2(elem int) int   { return bits.Len(uint(elem - 1)) }

// init makes the ring on mem, zeroed and aligned to 8 bytes, which the caller
// keeps until nobody uses the ring any more; nil takes the heap's.
func (r *Ring) init(mem []byte, depth, elem int) {
	n := RingLen(depth, elem)
	if mem == nil {
		r.mem = make([]uint64, n/8)
	} else {
		r.mem = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem[:n]))), n/8)
	}
	r.h = (*header)(unsafe.Pointer(unsafe.SliceData(r.mem)))
	r.data = unsafe.Add(unsafe.Pointer(r.h), headerLen)
	r.mask = uint32(slots(depth) - 1)
	r.log2 = uint32(log2(elem))
	r.h.log2ElemSize, r.h.indexMask = r.log2, r.mask
}

// Depth is how many entries the ring holds.
func (r *Ring) Depth() int { return int(r.mask) }

// Len is how many entries it holds now.
func (r *Ring) Len() int {
	return int((r.h.producer.Load() - r.h.consumer.Load()) & r.mask)
}

// Full tells whether nothing can be produced.
func (r *Ring) Full() bool { return r.Len() == int(r.mask) }

// Producer is the index at which the next entry is produced.
func (r *Ring) Producer() uint32 { return r.h.producer.Load() & r.mask }

// Consumer is the index of the oldest entry.
func (r *Ring) Consumer() uint32 { return r.h.consumer.Load() & r.mask }

// Next is the index behind i.
func (r *Ring) Next(i uint32) uint32 { return (i + 1) & r.mask }

// Distance is how many entries lie from index a up to index b.
func (r *Ring) Distance(a, b uint32) int { return int((b - a) & r.mask) }

// Publish makes entries before index i visible to the consumer.
func (r *Ring) Publish(i uint32) { r.h.producer.Store(i & r.mask) }

// Release gives entries before index i back to the producer.
func (r *Ring) Release(i uint32) { r.h.consumer.Store(i & r.mask) }

func (r *Ring) at(i uint32) unsafe.Pointer {
	return unsafe.Add(r.data, uintptr(i&r.mask)<<r.log2)
}
