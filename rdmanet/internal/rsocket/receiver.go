package rsocket

import (
	"slices"

	"softrdma/internal/reason"
)

// A Piece is a range of the memory that a side receives into. Area says which memory, if there are
// several; the receiver does not interpret it.
type Piece struct{ Area, Off, Len int }

// A Receiver tracks which part of the receive buffer holds data and which messages
// the peer must get.
type Receiver struct {
	credits uint16

	lengths []uint32 // unread bytes of each message that is not read completely: a ring
	first   int
	count   int

	pieces pieceList // granted to the peer and not read completely: the peer fills them in turn
	spare  pieceList // read completely, and to be granted again

	total  uint64 // bytes received
	pos    int    // bytes of the oldest piece that are read
	unread int
	room   int // bytes that the peer may still write

	arrived uint16 // messages received, modulo 2^16
	read    uint16 // messages read, modulo 2^16
	limit   uint16 // the credit limit granted to the peer
	due     uint16 // the value of read at which an update is due
}

// A pieceList is a short queue.
type pieceList struct {
	of [TargetEntries]Piece
	n  int
}

func (l *pieceList) push(p Piece) {
	l.of[l.n] = p
	l.n++
}

func (l *pieceList) pop() Piece {
	p := l.of[0]
	l.n--
	copy(l.of[:], l.of[1:])
	return p
}

// NewReceiver returns the receiver of a buffer of two halves, the pieces of area 0, with receives
// for that many data messages. The connection data grants the first half.
func NewReceiver(half int, credits uint16) *Receiver {
	r := &Receiver{
		credits: credits, lengths: make([]uint32, credits),
		room: half, limit: credits, due: max(credits/2, 1),
	}
	r.pieces.push(Piece{Len: half})
	r.spare.push(Piece{Off: half, Len: half})
	return r
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

// Next returns the oldest contiguous unread bytes.
func (r *Receiver) Next() Piece {
	p := r.pieces.of[0]
	return Piece{p.Area, p.Off + r.pos, min(r.unread, p.Len-r.pos)}
}

// Consume frees the first n unread bytes. n is at most the length that Next
// returns.
func (r *Receiver) Consume(n int) {
	r.unread -= n
	r.pos += n
	r.retire()
	for n > 0 {
		k := min(n, int(r.lengths[r.first]))
		r.lengths[r.first] -= uint32(k)
		n -= k
		r.drop()
	}
}

// retire makes pieces spare that are read completely. One that the peer has skipped may be empty.
func (r *Receiver) retire() {
	for r.pieces.n > 0 && r.pos == r.pieces.of[0].Len {
		r.spare.push(r.pieces.pop())
		r.pos = 0
	}
}

// Skip handles ControlSkip: the peer fills no more of the piece that it was filling. That piece ends where
// the data ends.
func (r *Receiver) Skip() error {
	filled := r.pos + r.unread
	for i := range r.pieces.of[:r.pieces.n] {
		p := &r.pieces.of[i]
		if filled >= p.Len {
			filled -= p.Len
			continue
		}
		r.room -= p.Len - filled
		p.Len = filled
		r.retire()
		return nil
	}
	return fault(reason.SocketTarget, 1, 0)
}

// Spare returns the piece that the next update grants, and reports whether there is one.
func (r *Receiver) Spare() (Piece, bool) { return r.spare.of[0], r.spare.n > 0 }

// Replace replaces the piece that Spare returns.
func (r *Receiver) Replace(p Piece) { r.spare.of[0] = p }

// Uses reports whether a piece begins at an offset of an area.
func (r *Receiver) Uses(area, off int) bool {
	is := func(p Piece) bool { return p.Area == area && p.Off == off }
	return slices.ContainsFunc(r.pieces.of[:r.pieces.n], is) || slices.ContainsFunc(r.spare.of[:r.spare.n], is)
}

// An Update is a message for the peer: OpCredits and, if the piece's length is not 0, a piece of
// memory that the peer may fill.
type Update struct {
	Message Message
	Piece
}

// Due reports whether the peer needs an update.
func (r *Receiver) Due() bool {
	return r.spare.n > 0 || int16(r.read-r.due) >= 0
}

// Update returns the update that is due. The caller must send it.
func (r *Receiver) Update() (u Update) {
	r.due = r.read + max(r.credits/2, 1)
	r.limit = r.read + r.credits
	u.Message = NewMessage(OpCredits, uint32(r.limit))
	if r.spare.n > 0 {
		u.Piece = r.spare.pop()
		r.pieces.push(u.Piece)
		r.room += u.Len
	}
	return u
}
