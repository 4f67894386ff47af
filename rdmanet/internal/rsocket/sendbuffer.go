package rsocket

// A SendBuffer tracks which parts of the send memory are in use. It is a ring of
// spans, which are taken in order and freed in any order.
type SendBuffer struct {
	size int
	head int // offset of the next span
	used int // bytes in use, with those skipped at the end of the ring

	spans []span // a ring
	first uint32
	count uint32
}

type span struct {
	len   int
	users int // the writer that fills it and the work requests that send it
}

// smallPiece is the shortest piece that is worth splitting at the end of the ring.
// Shorter pieces skip the end and start at offset 0.
const smallPiece = 2048

// NewSendBuffer returns the state of size bytes of memory with at most spans pieces
// in use at a time. spans is a power of two.
func NewSendBuffer(size, spans int) *SendBuffer {
	return &SendBuffer{size: size, spans: make([]span, spans)}
}

// Successor returns the state of another memory of size bytes, to use instead of b. Its spans are
// numbered on, so that those of b are known as its own until all are done.
func (b *SendBuffer) Successor(size int) *SendBuffer {
	return &SendBuffer{size: size, spans: make([]span, len(b.spans)), first: b.first + b.count}
}

// Has reports whether a span in use is one of b.
func (b *SendBuffer) Has(id uint32) bool { return id-b.first < b.count }

// Size returns the size of the memory.
func (b *SendBuffer) Size() int { return b.size }

// Busy reports whether more than a quarter of the memory is in use.
func (b *SendBuffer) Busy() bool { return b.used > b.size/4 }

// Used reports whether any of the memory is in use.
func (b *SendBuffer) Used() bool { return b.count > 0 }

// Take takes up to want contiguous bytes; n is 0 if there are none. They are in use
// until Done is called with the id.
func (b *SendBuffer) Take(want int) (off, n int, id uint32) {
	skip := b.skip(want)
	off, n = b.piece(skip)
	if n = min(n, want); n == 0 || int(b.count) == len(b.spans) {
		return 0, 0, 0
	}
	id = b.first + b.count
	*b.at(id) = span{len: skip + n, users: 1}
	b.count++
	b.used += skip + n
	b.head = (off + n) % b.size
	return off, n, id
}

// Room returns how many bytes Take(want) would take.
func (b *SendBuffer) Room(want int) int {
	if int(b.count) == len(b.spans) {
		return 0
	}
	_, n := b.piece(b.skip(want))
	return min(n, want)
}

// skip returns how many bytes at the end of the ring a piece of want bytes must
// skip.
func (b *SendBuffer) skip(want int) int {
	end := b.size - b.head
	if end < min(want, smallPiece) && b.size-b.used-end >= min(want, smallPiece) {
		return end
	}
	return 0
}

func (b *SendBuffer) piece(skip int) (off, n int) {
	off = (b.head + skip) % b.size
	return off, min(b.size-off, b.size-b.used-skip)
}

func (b *SendBuffer) at(id uint32) *span { return &b.spans[id%uint32(len(b.spans))] }

// Trim frees all but the first n bytes of a span of len bytes, if it is the newest
// span.
func (b *SendBuffer) Trim(id uint32, len, n int) {
	if id+1 != b.first+b.count {
		return
	}
	back := len - n
	b.at(id).len -= back
	b.used -= back
	b.head = (b.head - back + b.size) % b.size
}

// Hold adds a user to a span.
func (b *SendBuffer) Hold(id uint32) { b.at(id).users++ }

// Done removes a user from a span. A span without users is freed, after those before it. It returns
// how many bytes were freed.
func (b *SendBuffer) Done(id uint32) (freed int) {
	b.at(id).users--
	for b.count > 0 && b.at(b.first).users == 0 {
		b.used -= b.at(b.first).len
		freed += b.at(b.first).len
		b.first++
		b.count--
	}
	if b.count == 0 {
		b.head = 0 // reuse memory that is likely to be cached
	}
	return freed
}
