package rsocket

import "softrdma/internal/reason"

// A Receiver knows what of the receive buffer holds data, and what the peer
// must be told.
type Receiver struct {
	half    int // bytes
	credits uint16

	lengths []uint32 // of the messages that were not read to their end: a ring
	first   int
	count   int

	total  uint64 // bytes that arrived
	pos    int    // the oldest byte that was not read
	unread int
	room   int // bytes that the peer was told of and has not written

	free int // bytes read that the peer was not told again
	next int // the half that it is told next

	arrived uint16 // messages, modulo 2^16
	read    uint16 // of them
	limit   uint16 // what the peer was granted
	due     uint16 // when read gets there, the peer is told
}

// NewReceiver makes the receiver of a buffer of two halves, with receives for
// that many messages of data. The first half is told by the connection data.
func NewReceiver(half int, credits uint16) *Receiver {
	return &Receiver{
		half: half, credits: credits, lengths: make([]uint32, credits),
		room: half, free: half, next: 1, limit: credits, due: max(credits/2, 1),
	}
}

// Arrived counts an OpData message of n bytes.
func (r *Receiver) Arrived(n uint32) error {
	if r.arrived == r.limit {
		return fault(reason.SocketNoCredit, uint64(r.credits), uint64(r.count)+1)
	}
	if uint64(n) > uint64(r.room) {
		return fault(reason.SocketOverrun, uint64(r.room), uint64(n))
	}
	r.arrived++
	r.room -= int(n)
	r.unread += int(n)
	r.total += uint64(n)
	r.lengths[(r.first+r.count)%len(r.lengths)] = n
	r.count++
	r.drop()
	return nil
}

// Counted counts a message that took a credit and holds nothing to read.
func (r *Receiver) Counted() error {
	return r.Arrived(0)
}

// drop ends messages that hold nothing any more.
func (r *Receiver) drop() {
	for r.count > 0 && r.lengths[r.first] == 0 {
		r.first = (r.first + 1) % len(r.lengths)
		r.count--
		r.read++
	}
}

// Total is how many bytes have arrived.
func (r *Receiver) Total() uint64 { return r.total }

// Unread is how many bytes there are to read.
func (r *Receiver) Unread() int { return r.unread }

// Next is where the oldest of them lie, in one piece.
func (r *Receiver) Next() (off, n int) { return r.pos, min(r.unread, 2*r.half-r.pos) }

// Consume gives the first n of them back, at most Next's.
func (r *Receiver) Consume(n int) {
	r.unread -= n
	r.free += n
	if r.pos += n; r.pos == 2*r.half {
		r.pos = 0
	}
	for n > 0 {
		k := min(n, int(r.lengths[r.first]))
		r.lengths[r.first] -= uint32(k)
		n -= k
		r.drop()
	}
}

// An Update is what the peer must be told: an OpCredits message and, with
// Length, where a half of the buffer lies that it may fill again.
type Update struct {
	Message Message
	Off     int
	Length  int
}

// Due reports whether the peer must be told something.
func (r *Receiver) Due() bool {
	return r.free >= r.half || int16(r.read-r.due) >= 0
}

// Update is what is due; it counts as told.
func (r *Receiver) Update() (u Update) {
	r.due = r.read + max(r.credits/2, 1)
	r.limit = r.read + r.credits
	u.Message = NewMessage(OpCredits, uint32(r.limit))
	if r.free >= r.half {
		u.Off, u.Length = r.next*r.half, r.half
		r.next ^= 1
		r.free -= r.half
		r.room += r.half
	}
	return u
}
