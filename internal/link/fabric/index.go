package fabric

import (
	"sync/atomic"
	"unsafe"
)

// The memory of a program and its port begins with an index for each direction. Its two cache
// lines save the receiver from polling 16 distant rings.
//
//	offset    bytes   writer            what
//	0         64      sender            for each service level, the number of messages published
//	128       4       both              levels of which the next message rings the receiver's bell
//
// The index of what the fabric sends comes first.
const (
	indexLen   = 256
	armedAt    = 128
	indexesLen = 4096
)

// An index is one side's view of an index. The receiver does not trust it: a sender that
// writes wrong numbers only delays its own messages.
type index struct {
	published *[Levels]atomic.Uint32
	armed     *atomic.Uint32
	taken     [Levels]uint32 // released messages, counted by the receiver
}

// newIndex returns a view of the first or second index of a memory.
func newIndex(mem []byte, number int) index {
	b := mem[number*indexLen : (number+1)*indexLen]
	return index{
		published: (*[Levels]atomic.Uint32)(unsafe.Pointer(&b[0])),
		armed:     (*atomic.Uint32)(unsafe.Pointer(&b[armedAt])),
	}
}

// add counts a message that was published in a ring. Add is a full barrier, so later loads see
// what the receiver has stored before.
func (x *index) add(sl uint8) { x.published[sl].Add(1) }

// takeArmed reports, once, whether a message of the level must ring the bell.
func (x *index) takeArmed(sl uint8) bool {
	for {
		old := x.armed.Load()
		if old>>sl&1 == 0 {
			return false
		}
		if x.armed.CompareAndSwap(old, 0) {
			return true
		}
	}
}

// waiting returns the levels with messages that were published and not released.
func (x *index) waiting() (levels uint16) {
	for sl := range x.taken {
		if x.published[sl].Load() != x.taken[sl] {
			levels |= 1 << sl
		}
	}
	return levels
}

// arm asks the sender to ring the bell for the next message of some levels. If one of them has
// a message already, it asks for nothing and reports false. arm stores the levels before it
// looks for messages, and the sender publishes before it looks at the levels, so one of the
// two sees the other.
func (x *index) arm(levels uint16) (empty bool) {
	x.armed.Store(uint32(levels))
	if x.waiting()&levels == 0 {
		return true
	}
	x.disarm()
	return false
}

func (x *index) disarm() { x.armed.Store(0) }
