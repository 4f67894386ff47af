package hostmem

import (
	"sync/atomic"

	"softrdma/internal/reason"
)

// A Receiver takes messages out of one ring. One goroutine at a time uses it, and another one
// may call Arm and Disarm.
type Receiver struct {
	slots, arena []byte

	head, copying, armed, wantICRC *atomic.Uint64

	// Words written by the sender, which are not trusted.
	wake, revoked *atomic.Uint64

	next   uint64 // number of the next message, and of released messages
	shown  uint64 // released messages that the sender knows of: the value of head
	asleep atomic.Bool
	begun  bool // its Ref is in use
	short  bool // its payload is in its slot
	header [MaxHeader]byte
}

// Receiver returns the receiving end of the ring between two lanes. There must be only one for
// each ring.
func (a *Area) Receiver(from, to int) *Receiver {
	m := a.ring(from, to)
	return &Receiver{
		slots: m[slotsAt:arenaAt:arenaAt], arena: m[arenaAt:],
		head: shared(m, headAt), copying: shared(m, copyingAt), armed: shared(m, armedAt), wantICRC: shared(m, wantICRCAt),
		wake: shared(m, wakeAt), revoked: shared(m, revokedAt),
	}
}

// Next reads the next message into m and reports whether there is one. Release frees it. A
// fault means that the sender has violated the protocol, and the contents of the ring are
// meaningless from then on.
func (r *Receiver) Next(m *Received) (ok bool, fault reason.Detail) {
	slot := r.slot(r.next)
	first := shared(slot, 0).Load()
	if stamp := stampOf(r.next); uint32(first) != stamp {
		if uint32(first) != stamp-1 {
			return false, broken(uint64(stamp), uint64(uint32(first)))
		}
		return false, reason.Detail{}
	}
	f, header, length := m.set(first, shared(slot, 8).Load())
	if header > MaxHeader {
		return false, broken(MaxHeader, uint64(header))
	}
	if length > ReferMax {
		return false, broken(ReferMax, uint64(length))
	}
	n := int(length)
	m.Len, m.Refers, m.Ref, m.Lent = n, false, Ref{}, nil
	r.short = f == inSlot
	at := farAt
	switch f {
	case inSlot:
		at = nearAt
		start := nearAt + header
		if n > slotSize-start {
			return false, broken(uint64(slotSize-start), uint64(n))
		}
		m.Payload = slot[start : start+n : start+n]
	case inArena:
		start := shared(slot, nearAt).Load()
		if n > InlineMax {
			return false, broken(InlineMax, uint64(n))
		}
		if start > uint64(arenaSize-n) {
			return false, broken(uint64(arenaSize-n), start)
		}
		m.Payload = r.arena[start : int(start)+n : int(start)+n]
	case byRef:
		m.Payload, m.Refers = nil, true
		m.Ref = Ref{Segment: uint32(shared(slot, nearAt+8).Load()), Offset: shared(slot, nearAt).Load()}
	default:
		return false, broken(uint64(forms-1), uint64(f))
	}
	m.Header = r.header[:copy(r.header[:header], slot[at:])]
	return true, reason.Detail{}
}

// broken returns the fault of a ring.
func broken(expected, found uint64) reason.Detail {
	return reason.Detail{Reason: reason.HostRing, Expected: expected, Found: found}
}

// slot returns the slot of message number n.
func (r *Receiver) slot(n uint64) []byte {
	at := int(n%slots) * slotSize
	return r.slots[at : at+slotSize : at+slotSize]
}

// showEvery is the number of short messages that Retire frees before it tells the sender.
// Telling costs the receiver a full barrier, and the sender a cache miss when it looks.
const showEvery = 16

// Release frees the message that Next has read. ring reports that the sender waits for this
// and its bell must be rung.
func (r *Receiver) Release() (ring bool) {
	return r.Retire() || r.Show()
}

// Retire is Release for several consecutive messages. The sender may learn only from the next
// Show that a short message is free. The caller calls Show after the last message.
func (r *Receiver) Retire() (ring bool) {
	r.next++
	if r.begun {
		r.end()
	} else if r.short && r.next-r.shown < showEvery {
		return false
	}
	return r.Show()
}

// Show tells the sender of all free messages. ring is as in Release.
func (r *Receiver) Show() (ring bool) {
	before := r.shown
	if r.next == before {
		return false
	}
	r.shown = r.next
	r.head.Store(r.next)
	if r.asleep.Load() {
		r.armed.Store(r.next + 1)
	}
	wake := r.wake.Load()
	return wake > before && wake <= r.next
}

// SetWantICRC tells the sender whether the receiver captures.
func (r *Receiver) SetWantICRC(want bool) {
	var v uint64
	if want {
		v = 1
	}
	r.wantICRC.Store(v)
}
