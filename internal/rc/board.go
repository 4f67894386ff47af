package rc

import (
	"slices"
	"time"
)

// A board says which sequence numbers from una up to high are missing: those
// in its holes. Everything else below high has arrived. It exists only while
// something is missing.
type board struct {
	list []hole // by sequence number
	high uint32 // behind the last that arrived
	done uint32 // behind the last that the peer is known to have executed: what it only holds it may still drop

	answered uint32 // behind the last answer that came

	missing, lost uint32 // sequence numbers in holes, and in those in state lost

	// When the latest repetition left that has arrived, of a request and of a
	// question for an answer: those that left earlier should have, too (RFC 8985,
	// 6.2). Answers may wait behind others where acknowledges do not.
	repeated, askedAgain time.Duration

	// A NAK that waits until everything before it is answered.
	nak         bool
	nakSyndrome uint8
	nakAt       uint32
}

// A hole is a range of missing sequence numbers of one history.
type hole struct {
	first, end uint32
	mark       uint32        // nxt when it was sent again
	seen       time.Duration // when something that left later was known to have arrived
	sent       time.Duration // when it was sent again
	state      holeState
	answer     bool  // the answer is missing: the peer has the request
	tries      uint8 // how often it was sent again
}

type holeState uint8

const (
	due    holeState = iota // READ or atomic that the peer has, and answers in its turn
	late                    // something that left later has arrived
	lost                    // late for too long: to be sent again
	resent                  // sent again, nothing that left later has arrived
)

// maxHoles bounds the list; beyond it everything is sent again.
const maxHoles = 2048

func before(a, b uint32) bool { return int32(a-b) < 0 }

// later is the later of two sequence numbers.
func later(a, b uint32) uint32 {
	if before(a, b) {
		return b
	}
	return a
}

// min32 is the earlier of two sequence numbers.
func min32(a, b uint32) uint32 {
	if before(b, a) {
		return b
	}
	return a
}

// front is the first sequence number that is missing or not executed.
func (b *board) front() uint32 {
	if len(b.list) > 0 {
		return min32(b.list[0].first, b.done)
	}
	return min32(b.high, b.done)
}

// index is the place of the first hole that ends behind e.
func (b *board) index(e uint32) int {
	lo, hi := 0, len(b.list)
	for lo < hi {
		if mid := (lo + hi) / 2; before(e, b.list[mid].end) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// has tells whether sequence number e has arrived.
func (b *board) has(e uint32) bool {
	k := b.index(e)
	return before(e, b.high) && (k == len(b.list) || before(e, b.list[k].first))
}

// split makes e a border between holes, where it lies in one.
func (b *board) split(e uint32) {
	i := b.index(e)
	if i == len(b.list) || !before(b.list[i].first, e) {
		return
	}
	h := b.list[i]
	b.list[i].end = e
	h.first = e
	b.list = slices.Insert(b.list, i+1, h)
}

// within gives the places of the holes between first and end, of which those
// that reach beyond are split.
func (b *board) within(first, end uint32) (i, k int) {
	if i = b.index(first); i == len(b.list) || !before(b.list[i].first, end) {
		return i, i
	}
	b.split(first)
	b.split(end)
	i = b.index(first)
	for k = i; k < len(b.list) && before(b.list[k].first, end); k++ {
	}
	return i, k
}

// open adds a hole from high up to end, which high becomes.
func (b *board) open(now time.Duration, end uint32, s holeState) {
	if n := len(b.list); n > 0 {
		h := &b.list[n-1]
		if h.end == b.high && h.state == s && h.seen == now && h.tries == 0 && !h.answer {
			b.missing += end - b.high
			h.end, b.high = end, end
			return
		}
	}
	b.list = append(b.list, hole{first: b.high, end: end, seen: now, state: s})
	b.missing += end - b.high
	b.high = end
}

func (b *board) repeatedOf(h *hole) *time.Duration {
	if h.answer {
		return &b.askedAgain
	}
	return &b.repeated
}

// overtaken tells whether something that left after the repetition of a hole
// has arrived.
func (b *board) overtaken(h *hole) bool {
	behind := b.high
	if h.answer {
		behind = b.answered // not what is only known to have been asked for
	}
	return before(h.mark, behind) || h.sent < *b.repeatedOf(h)
}

// move gives a hole another state.
func (b *board) move(h *hole, s holeState) {
	n := h.end - h.first
	if h.state == lost {
		b.lost -= n
	}
	if s == lost {
		b.lost += n
	}
	h.state = s
}

// remove takes holes i up to k off the list: they are filled.
func (b *board) remove(i, k int) {
	for _, h := range b.list[i:k] {
		n := h.end - h.first
		b.missing -= n
		if h.state == lost {
			b.lost -= n
		}
	}
	b.list = slices.Delete(b.list, i, k)
}

// toRepeat is the place of the first hole to be sent again, -1 for none.
func (b *board) toRepeat() int {
	if b.lost == 0 {
		return -1
	}
	return slices.IndexFunc(b.list, func(h hole) bool { return h.state == lost })
}

// sentAgain takes note that the holes from first up to end left again, and
// merges them with the one before where they left together.
func (b *board) sentAgain(now time.Duration, first, end, nxt uint32) {
	i, k := b.within(first, end)
	for j := i; j < k; j++ {
		h := &b.list[j]
		b.move(h, resent)
		h.sent, h.mark, h.tries = now, nxt, min(h.tries+1, 250)
	}
	if i == 0 || k != i+1 {
		return
	}
	q, p := &b.list[i-1], &b.list[i]
	if q.end == p.first && q.state == resent && q.sent == now && q.mark == nxt && q.tries == p.tries && q.seen == p.seen && q.answer == p.answer {
		q.end = p.end
		b.list = slices.Delete(b.list, i, i+1)
	}
}

// executed tells whether the peer is known to have executed a request.
func (b *board) executed(w *request) bool { return !before(b.done, w.last+1) }
