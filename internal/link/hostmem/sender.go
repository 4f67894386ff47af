package hostmem

import (
	"sync"
	"sync/atomic"
)

// recheck is the number of bytes of the arena that may seem to be in use before the sender
// looks at the head again. If the ring is empty, it reuses the start of the arena, which both
// caches hold: single messages of 1 KiB then take .6 of the time.
const recheck = 1 << 10

// A Sender writes messages into one ring. One goroutine at a time uses it.
type Sender struct {
	slots, arena []byte

	// Words written by the receiver, which are not trusted.
	head, copying, armed, wantICRC *atomic.Uint64

	wake, revoked *atomic.Uint64

	sent    uint64 // messages published
	taken   uint64 // messages that the receiver had released when refresh last looked
	checked uint64 // messages published before the last Armed
	refs    uint64 // 1 + number of the last message with a Ref
	stuck   uint64 // value of copying that Revoke no longer waits for
	place   places
	batch   batch
	barrier atomic.Uint64 // see Armed

	revoking  sync.Mutex
	revokedTo uint64 // value of revoked unless the receiver has changed it
}

// Sender returns the sending end of the ring between two lanes. There must be only one for
// each ring.
func (a *Area) Sender(from, to int) *Sender {
	m := a.ring(from, to)
	return &Sender{
		slots: m[slotsAt:arenaAt:arenaAt], arena: m[arenaAt:],
		head: shared(m, headAt), copying: shared(m, copyingAt), armed: shared(m, armedAt), wantICRC: shared(m, wantICRCAt),
		wake: shared(m, wakeAt), revoked: shared(m, revokedAt),
	}
}

// Copy publishes a message whose payload of n bytes, at most InlineMax, is the concatenation
// of pieces. It returns false if there is no room. header has at most MaxHeader bytes.
func (s *Sender) Copy(h *Head, header []byte, pieces [][]byte, n int) bool {
	if s.sent-s.taken == slots && !s.refresh() {
		return false
	}
	slot := s.next()
	if nearAt+len(header)+n <= slotSize {
		at := nearAt + copy(slot[nearAt:nearAt+MaxHeader], header)
		for _, p := range pieces {
			at += copy(slot[at:], p)
		}
		s.publish(slot, h.first(inSlot, len(header)), h.second(n))
		return true
	}
	start, ok := s.reserve(n)
	if !ok {
		return false
	}
	at := start
	for _, p := range pieces {
		at += copy(s.arena[at:start+n], p)
	}
	*word(slot, nearAt) = uint64(start)
	copy(slot[farAt:farAt+MaxHeader], header)
	s.publish(slot, h.first(inArena, len(header)), h.second(n))
	return true
}

// Refer publishes a message whose payload is the n bytes, at most ReferMax, that r references.
// They must not change until the receiver has released the message or Revoke has returned.
// Refer returns false if there is no room.
func (s *Sender) Refer(h *Head, header []byte, r Ref, n int) bool {
	if s.sent-s.taken == slots && !s.refresh() {
		return false
	}
	slot := s.next()
	r.put(slot, header)
	s.refs = s.sent + 1
	s.publish(slot, h.first(byRef, len(header)), h.second(n))
	return true
}

// put writes the reference and the headers of a message to its slot.
func (r *Ref) put(slot, header []byte) {
	*word(slot, nearAt), *word(slot, nearAt+8) = r.Offset, uint64(r.Segment)
	copy(slot[farAt:farAt+MaxHeader], header)
}

// next returns the slot of the next message.
func (s *Sender) next() []byte {
	at := int(s.sent%slots) * slotSize
	return s.slots[at : at+slotSize : at+slotSize]
}

// publish makes the message in a slot visible: the stamp is stored last.
func (s *Sender) publish(slot []byte, first, second uint64) {
	*word(slot, 8) = second
	storeRelease(word(slot, 0), first|uint64(stampOf(s.sent)))
	s.count()
}

// count counts the message that was written to the next slot.
func (s *Sender) count() {
	s.place.ends[s.sent%slots] = s.place.next
	s.sent++
}

// refresh reads how many messages the receiver has released and reports whether the number has
// grown. It ignores an impossible number.
func (s *Sender) refresh() bool {
	head := s.head.Load()
	more := head - s.taken
	if more == 0 || more > s.sent-s.taken {
		return false
	}
	s.taken = head
	if head == s.sent {
		s.place.restart()
	} else {
		s.place.freed = s.place.ends[(head-1)%slots]
	}
	return true
}

// Slots is the number of messages that a ring holds.
const Slots = slots

// Room reports whether that many messages with a total payload of n bytes fit now. If there is
// more than one, the length of each but the last must be a multiple of 64.
func (s *Sender) Room(messages, n int) bool {
	if !s.holds(messages) && (!s.refresh() || !s.holds(messages)) {
		return false
	}
	if nearAt+MaxHeader+n <= slotSize {
		return true
	}
	return s.place.fits(n) || s.refresh() && s.place.fits(n)
}

// holds reports whether that many slots are free.
func (s *Sender) holds(messages int) bool { return s.sent-s.taken+uint64(messages) <= slots }

// WantICRC reports whether the receiver captures.
func (s *Sender) WantICRC() bool { return s.wantICRC.Load() != 0 }

// Sent returns the number of messages published.
func (s *Sender) Sent() uint64 { return s.sent }

// Consumed returns how many messages the receiver claims to have released. It never exceeds
// Sent and never decreases.
func (s *Sender) Consumed() uint64 {
	s.refresh()
	return s.taken
}

// reserve allocates n bytes of the arena for the next message.
func (s *Sender) reserve(n int) (start int, ok bool) {
	if n > InlineMax {
		panic("hostmem: payload too long")
	}
	if s.place.next-s.place.freed > recheck {
		s.refresh()
	}
	if !s.place.fits(n) && (!s.refresh() || !s.place.fits(n)) {
		return 0, false
	}
	return s.place.take(n), true
}

// places tracks the used part of the arena, in the sender's private memory. A payload is
// contiguous: one that would cross the arena's end is placed at its start. Positions count
// bytes since the first message, modulo 2^32.
type places struct {
	next  uint32        // where the next payload may begin
	freed uint32        // everything before is free
	ends  [slots]uint32 // next, after each message
}

// begin returns the position of a payload of n bytes.
func (p *places) begin(n int) uint32 {
	if at := p.next % arenaSize; at+uint32(n) > arenaSize {
		return p.next + arenaSize - at
	}
	return p.next
}

func (p *places) fits(n int) bool { return p.begin(n)+uint32(n)-p.freed <= arenaSize }

// take allocates n bytes, which must fit, and returns their offset.
func (p *places) take(n int) int {
	at := p.begin(n)
	p.next = at + (uint32(n)+63)&^63 // the next payload begins at a cache line
	return int(at % arenaSize)
}

// restart returns to the start of the arena when nothing is in use.
func (p *places) restart() {
	p.next = (p.next + arenaSize - 1) &^ (arenaSize - 1)
	p.freed = p.next
}
