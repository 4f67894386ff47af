// Package scoreboard is a requester's record of which packets the peer lacks (RFC 6675
// has the same for TCP). It holds ranges of sequence numbers and their state; it knows
// nothing of work requests and packets, and decides nothing.
package scoreboard

import (
	"slices"
	"time"

	"softrdma/internal/rc/seq"
	"softrdma/internal/wire/ib"
)

// MaxHoles is the number of holes from which on the requester goes back to the first
// packet instead.
const MaxHoles = 8192

// A Board says which sequence numbers from the oldest unacknowledged one up to High are
// missing: those in its holes. Everything else below High has arrived.
type Board struct {
	Holes    []Hole // by sequence number
	High     uint32 // behind the last one that arrived
	Executed uint32 // behind the last request that the peer is known to have executed: it may still drop those that it only holds
	Answered uint32 // behind the last answer that came

	Missing, Lost uint32 // sequence numbers in holes, and in holes in state Lost

	// The times at which the latest repetitions that arrived were sent, of requests and
	// of requests for an answer. What was sent earlier should have arrived, too (RFC
	// 8985, 6.2). They differ because an answer may wait behind others where an
	// acknowledge does not.
	requestSent, answerSent time.Duration

	// A NAK waits here until everything before it is answered.
	nak      bool
	nakAt    uint32
	syndrome ib.Syndrome
}

// A Hole is a range of missing sequence numbers with one history.
type Hole struct {
	First, End uint32
	Seen       time.Duration // when something that was sent later was known to have arrived
	Sent       time.Duration // when it was sent again
	State      State
	Answer     bool  // the answer is missing: the peer has the request
	Tries      uint8 // how often it was sent again

	next uint32 // the sequence number to send next when it was sent again
}

// A State says what is known of a hole.
type State uint8

// The states.
const (
	Pending State = iota // a READ or atomic that the peer has, and answers in its turn
	Late                 // something that was sent later has arrived
	Lost                 // late for too long: to be sent again
	Resent               // sent again, and nothing that was sent later has arrived
)

// Reset empties the board; first is the oldest unacknowledged sequence number.
func (b *Board) Reset(first uint32) {
	*b = Board{Holes: b.Holes[:0], High: first, Executed: first, Answered: first}
}

// Front is the first sequence number that is missing or not executed.
func (b *Board) Front() uint32 {
	if len(b.Holes) > 0 {
		return seq.Min(b.Holes[0].First, b.Executed)
	}
	return seq.Min(b.High, b.Executed)
}

// index is the index of the first hole that ends behind e.
func (b *Board) index(e uint32) int {
	lo, hi := 0, len(b.Holes)
	for lo < hi {
		if mid := (lo + hi) / 2; seq.Before(e, b.Holes[mid].End) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Has reports whether sequence number e has arrived.
func (b *Board) Has(e uint32) bool {
	k := b.index(e)
	return seq.Before(e, b.High) && (k == len(b.Holes) || seq.Before(e, b.Holes[k].First))
}

// HasAll reports whether everything from first up to end has arrived.
func (b *Board) HasAll(first, end uint32) bool {
	i := b.index(first)
	return !seq.Before(b.High, end) && (i == len(b.Holes) || !seq.Before(b.Holes[i].First, end))
}

// split divides the hole that e lies in.
func (b *Board) split(e uint32) {
	i := b.index(e)
	if i == len(b.Holes) || !seq.Before(b.Holes[i].First, e) {
		return
	}
	h := b.Holes[i]
	b.Holes[i].End = e
	h.First = e
	b.Holes = slices.Insert(b.Holes, i+1, h)
}

// Within returns the indices i up to k of the holes between first and end. Holes that
// reach beyond are split.
func (b *Board) Within(first, end uint32) (i, k int) {
	if i = b.index(first); i == len(b.Holes) || !seq.Before(b.Holes[i].First, end) {
		return i, i
	}
	b.split(first)
	b.split(end)
	i = b.index(first)
	for k = i; k < len(b.Holes) && seq.Before(b.Holes[k].First, end); k++ {
	}
	return i, k
}

// Skip moves High to first if that is later: everything in between is late.
func (b *Board) Skip(now time.Duration, first uint32) {
	if seq.Before(b.High, first) {
		b.Open(now, first, Late)
	}
}

// Open adds a hole from High up to end, and moves High there.
func (b *Board) Open(now time.Duration, end uint32, s State) {
	b.Missing += end - b.High
	if n := len(b.Holes); n > 0 {
		h := &b.Holes[n-1]
		if h.End == b.High && h.State == s && h.Seen == now && h.Tries == 0 && !h.Answer {
			h.End, b.High = end, end
			return
		}
	}
	b.Holes = append(b.Holes, Hole{First: b.High, End: end, Seen: now, State: s})
	b.High = end
}

// Move gives a hole another state.
func (b *Board) Move(h *Hole, s State) {
	n := h.End - h.First
	if h.State == Lost {
		b.Lost -= n
	}
	if s == Lost {
		b.Lost += n
	}
	h.State = s
}

// Fill removes holes i up to k: what was missing has arrived.
func (b *Board) Fill(i, k int) {
	for _, h := range b.Holes[i:k] {
		n := h.End - h.First
		b.Missing -= n
		if h.State == Lost {
			b.Lost -= n
		}
	}
	b.Holes = slices.Delete(b.Holes, i, k)
}

// FirstLost is the index of the first hole to be sent again, -1 for none.
func (b *Board) FirstLost() int {
	if b.Lost == 0 {
		return -1
	}
	return slices.IndexFunc(b.Holes, func(h Hole) bool { return h.State == Lost })
}

// SentAgain notes that the holes from first up to end were sent again; next is the
// sequence number to send next. Holes that were sent together are merged.
func (b *Board) SentAgain(now time.Duration, first, end, next uint32) {
	i, k := b.Within(first, end)
	for j := i; j < k; j++ {
		h := &b.Holes[j]
		b.Move(h, Resent)
		h.Sent, h.next, h.Tries = now, next, min(h.Tries+1, 250)
	}
	if i == 0 || k != i+1 {
		return
	}
	q, p := &b.Holes[i-1], &b.Holes[i]
	if q.End == p.First && q.State == Resent && q.Sent == now && q.next == next && q.Tries == p.Tries && q.Seen == p.Seen && q.Answer == p.Answer {
		q.End = p.End
		b.Holes = slices.Delete(b.Holes, i, i+1)
	}
}

func (b *Board) latestSent(h *Hole) *time.Duration {
	if h.Answer {
		return &b.answerSent
	}
	return &b.requestSent
}

// RepetitionArrived notes that a hole was filled by its repetition.
func (b *Board) RepetitionArrived(h *Hole) {
	t := b.latestSent(h)
	*t = max(*t, h.Sent)
}

// Overtaken reports whether something that was sent after the repetition of a hole has
// arrived.
func (b *Board) Overtaken(h *Hole) bool {
	behind := b.High
	if h.Answer {
		behind = b.Answered // not what is only known to have been asked for
	}
	return seq.Before(h.next, behind) || h.Sent < *b.latestSent(h)
}

// Refuse remembers a NAK whose turn has not come: something before it is to be answered
// first.
func (b *Board) Refuse(e uint32, s ib.Syndrome) {
	if !b.nak || seq.Before(e, b.nakAt) {
		b.nak, b.nakAt, b.syndrome = true, e, s
	}
}

// Refused returns the NAK that waited for everything before it, and so for una to reach
// it. A NAK before una is forgotten.
func (b *Board) Refused(una uint32) (s ib.Syndrome, ok bool) {
	if !b.nak || seq.Before(una, b.nakAt) {
		return 0, false
	}
	b.nak = false
	return b.syndrome, una == b.nakAt
}
