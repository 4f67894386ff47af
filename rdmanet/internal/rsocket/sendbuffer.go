package rsocket

// A SendBuffer says what of the memory that data is sent from is in use. It is
// a ring of spans: memory is taken in one order, and given back in any.
type SendBuffer struct {
	size int
	head int // where the next span begins
	used int // bytes from the oldest span on, with what was left out at the end

	spans []span // a ring
	first uint32
	count uint32
}

type span struct {
	len   int
	users int // who fills it, and work requests that it is sent by
}

// smallPiece is from which length on the rest of the ring is used rather than
// left out for a piece that does not fit there.
const smallPiece = 2048

// NewSendBuffer makes the state of size bytes of memory, of which at most spans
// pieces are in use at a time, a power of two.
func NewSendBuffer(size, spans int) *SendBuffer {
	return &SendBuffer{size: size, spans: make([]span, spans)}
}

// Used reports whether any of the memory is in use.
func (b *SendBuffer) Used() bool { return b.count > 0 }

// Take takes up to want bytes in one piece; n is 0 when there are none. They
// are in use until Done with the id.
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

// Room is how many bytes Take(want) would give.
func (b *SendBuffer) Room(want int) int {
	if int(b.count) == len(b.spans) {
		return 0
	}
	_, n := b.piece(b.skip(want))
	return min(n, want)
}

// skip is how much of the ring's end is left out for a piece of want bytes.
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

// Trim gives back all but the first n bytes of a span of len bytes, if nothing
// was taken after it.
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

// Done ends a use of a span; the last gives it back.
func (b *SendBuffer) Done(id uint32) {
	b.at(id).users--
	for b.count > 0 && b.at(b.first).users == 0 {
		b.used -= b.at(b.first).len
		b.first++
		b.count--
	}
	if b.count == 0 {
		b.head = 0 // what is used most stays in the cache
	}
}
