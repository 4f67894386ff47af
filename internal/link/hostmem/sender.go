package hostmem

import (
	"sync"
	"sync/atomic"
)

// recheck is the number of bytes of the arena that may seem to be in use before the sender
// looks at the head again. If the ring is empty, it uses the start of the arena again, which
// both caches hold: single messages of 1 KiB take .6 of the time then.
const recheck = 1 << 10

// A Sender writes messages into one ring. One goroutine at a time uses it.
type Sender struct {
	slots, arena []byte

	// The receiver's words, which it may fill with anything.
	head, copying, armed, wantICRC *atomic.Uint64

	wake, revoked *atomic.Uint64

	sent    uint64 // messages published
	taken   uint64 // of those, released by the receiver when refresh last looked
	checked uint64 // of those, published before the last Armed
	refs    uint64 // 1 + number of the last message with a Ref
	stuck   uint64 // value of copying that Revoke waits for no longer
	place   places
	batch   batch
	barrier atomic.Uint64 // see Armed

	revoking  sync.Mutex
	revokedTo uint64 // what revoked holds, unless the receiver has changed that
}

// Sender returns the sending end of the ring between two lanes. There is one for each ring.
func (a *Area) Sender(from, to int) *Sender {
	m := a.ring(from, to)
	return &Sender{
		slots: m[slotsAt:arenaAt:arenaAt], arena: m[arenaAt:],
		head: shared(m, headAt), copying: shared(m, copyingAt), armed: shared(m, armedAt), wantICRC: shared(m, wantICRCAt),
		wake: shared(m, wakeAt), revoked: shared(m, revokedAt),
	}
}

// Copy publishes a message whose payload of n bytes, at most InlineMax, is the
// concatenation of pieces. It returns false if there is no room. header has at most
// MaxHeader bytes.
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

// Refer publishes a message whose payload is the n bytes, at most ReferMax, that r names.
// They must not change until the receiver has released the message or Revoke has returned.
// Refer returns false if there is no room.
func (s *Sender) Refer(h *Head, header []byte, r Ref, n int) bool {
	if s.sent-s.taken == slots && !s.refresh() {
		return false
	}
	slot := s.next()
	*word(slot, nearAt), *word(slot, nearAt+8) = r.Offset, uint64(r.Segment)
	copy(slot[farAt:farAt+MaxHeader], header)
	s.refs = s.sent + 1
	s.publish(slot, h.first(byRef, len(header)), h.second(n))
	return true
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

// refresh reads how many messages the receiver has released and reports whether there are
// more than before. It ignores a number that cannot be true.
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

// Room reports whether so many messages with n bytes of payload together fit now. If there is
// more than one, the length of each but the last is a multiple of 64.
func (s *Sender) Room(messages, n int) bool {
	if !s.holds(messages) && (!s.refresh() || !s.holds(messages)) {
		return false
	}
	if nearAt+MaxHeader+n <= slotSize {
		return true
	}
	return s.place.fits(n) || s.refresh() && s.place.fits(n)
}

// holds reports whether there are slots for so many messages.
func (s *Sender) holds(messages int) bool { return s.sent-s.taken+uint64(messages) <= slots }

// WantICRC reports whether the receiver captures.
func (s *Sender) WantICRC() bool { return s.wantICRC.Load() != 0 }

// Sent returns the number of messages published.
func (s *Sender) Sent() uint64 { return s.sent }

// Consumed returns how many messages the receiver says that it has released. It never
// exceeds Sent and never decreases.
func (s *Sender) Consumed() uint64 {
	s.refresh()
	return s.taken
}

// reserve takes n bytes of the arena for the next message.
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

// places records which part of the arena is in use, in the sender's private memory. A
// payload is contiguous: one that would cross the arena's end goes to its start. Positions
// count bytes since the first message, modulo 2^32.
type places struct {
	next  uint32        // where the next payload may begin
	freed uint32        // everything before is free
	ends  [slots]uint32 // next, after each message
}

// begin returns where a payload of n bytes goes.
func (p *places) begin(n int) uint32 {
	if at := p.next % arenaSize; at+uint32(n) > arenaSize {
		return p.next + arenaSize - at
	}
	return p.next
}

func (p *places) fits(n int) bool { return p.begin(n)+uint32(n)-p.freed <= arenaSize }

// take returns the offset of n bytes that fit.
func (p *places) take(n int) int {
	at := p.begin(n)
	p.next = at + (uint32(n)+63)&^63 // payload begins at a line
	return int(at % arenaSize)
}

// restart goes back to the arena's start. Nothing is in use.
func (p *places) restart() {
	p.next = (p.next + arenaSize - 1) &^ (arenaSize - 1)
	p.freed = p.next
}
