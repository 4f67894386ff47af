package reorder

import (
	"math/bits"

	"softrdma/internal/machine"
)

// A Pool lends the buffers and copies of all connections of one lane. A connection
// without a loss holds nothing of it. The holder of the lane may use it.
type Pool struct {
	limit   int // bytes of copies, over all connections
	used    int
	spare   int // bytes of copies in free
	free    [classes][]*Request
	buffers []*Buffer
}

const (
	// The sizes of copies are powers of two from 256 to 4096 bytes.
	classes    = 5
	smallClass = 8

	// spareLimit and spareBuffers bound what a Pool keeps unused.
	spareLimit   = 8 << 20
	spareBuffers = 64
)

// NewPool makes a pool of at most limit bytes of copies.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Limit is the most bytes of copies that are lent.
func (p *Pool) Limit() int { return p.limit }

// Used is the number of bytes of copies that are lent.
func (p *Pool) Used() int { return p.used }

// Copy copies a request that takes count PSNs. It returns nil if there is no room.
func (p *Pool) Copy(in *machine.In, count uint32) *Request {
	class := 0
	if n := len(in.Payload); n > 1<<smallClass {
		class = bits.Len(uint(n-1)) - smallClass
	}
	size := 1 << (class + smallClass)
	if class >= classes || p.used+size > p.limit {
		return nil
	}
	p.used += size
	var h *Request
	if k := len(p.free[class]) - 1; k >= 0 {
		h = p.free[class][k]
		p.free[class] = p.free[class][:k]
		p.spare -= size
	} else {
		h = &Request{room: make([]byte, size), class: uint8(class)}
	}
	h.In, h.Count, h.next = *in, count, nil
	h.Payload = h.room[:copy(h.room, in.Payload)]
	return h
}

// Free takes a copy back.
func (p *Pool) Free(h *Request) {
	size := 1 << (h.class + smallClass)
	p.used -= size
	if p.spare+size <= spareLimit {
		p.spare += size
		p.free[h.class] = append(p.free[h.class], h)
	}
}

// Buffer lends an empty buffer.
func (p *Pool) Buffer() *Buffer {
	k := len(p.buffers) - 1
	if k < 0 {
		return &Buffer{}
	}
	b := p.buffers[k]
	p.buffers = p.buffers[:k]
	return b
}

// Return takes an empty buffer back.
func (p *Pool) Return(b *Buffer) {
	b.runs, b.news = b.runs[:0], 0
	if len(p.buffers) < spareBuffers {
		p.buffers = append(p.buffers, b)
	}
}
