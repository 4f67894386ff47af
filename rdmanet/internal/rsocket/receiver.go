package rsocket

import "softrdma/internal/reason"

// A Receiver tracks which part of the receive buffer holds data and which messages
// the peer must get.
type Receiver struct {
	half    int // bytes
	credits uint16

	lengths []uint32 // unread bytes of each message that is not read completely: a ring
	first   int
	count   int

	total  uint64 // bytes received
	pos    int    // offset of the oldest unread byte
	unread int
	room   int // bytes that the peer may still write

	free int // bytes read and not yet granted again
	next int // the half to grant next

	arrived uint16 // messages received, modulo 2^16
	read    uint16 // messages read, modulo 2^16
	limit   uint16 // the credit limit granted to the peer
	due     uint16 // the value of read at which an update is due
}

// NewReceiver returns the receiver of a buffer of two halves, with receives for
// that many data messages. The connection data grants the first half.
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

// Counted counts a message that used a credit and has nothing to read.
func (r *Receiver) Counted() error {
	return r.Arrived(0)
}

// drop removes messages that have been read completely.
func (r *Receiver) drop() {
	for r.count > 0 && r.lengths[r.first] == 0 {
		r.first = (r.first + 1) % len(r.lengths)
		r.count--
		r.read++
	}
}

// Total returns how many bytes have arrived.
func (r *Receiver) Total() uint64 { return r.total }

// Unread returns how many bytes can be read.
func (r *Receiver) Unread() int { return r.unread }

// Next returns the offset and length of the oldest contiguous unread bytes.
func (r *Receiver) Next() (off, n int) { return r.pos, min(r.unread, 2*r.half-r.pos) }

// Consume frees the first n unread bytes. n is at most the length that Next
// returns.
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

// An Update is a message for the peer: OpCredits and, if Length is not 0, a half of
// the buffer that the peer may fill again.
type Update struct {
	Message Message
	Off     int
	Length  int
}

// Due reports whether the peer needs an update.
func (r *Receiver) Due() bool {
	return r.free >= r.half || int16(r.read-r.due) >= 0
}

// Update returns the update that is due. The caller must send it.
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
