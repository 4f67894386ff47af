package rc

import (
	"math/bits"

	"softrdma/internal/machine"
)

// A Store lends the queue pairs of one lane what they need while packets are
// missing: room for copies of requests that came behind a lost one, and the
// lists of what is missing. A queue pair without a loss holds nothing of it. It
// belongs to whoever holds the lane.
type Store struct {
	limit  int // bytes of copies, over all queue pairs
	used   int
	spare  int // bytes of copies in free
	free   [classes][]*held
	boards []*board
	orders []*reorder
	parts  [][]resource
}

// DefaultStore is a good limit for NewStore.
const DefaultStore = 64 << 20

const (
	// The classes of copies are powers of two from 256 to 4096 bytes.
	classes    = 5
	smallClass = 8

	// spareLimit bounds what a Store keeps without use, in bytes and in lists.
	spareLimit = 8 << 20
	spareLists = 64
)

// NewStore makes a store that holds at most limit bytes of packets.
func NewStore(limit int) *Store { return &Store{limit: limit} }

// A held request is a copy of one that came too early.
type held struct {
	machine.In
	next  *held
	class uint8
	count uint32 // PSNs that it takes
	room  []byte
}

// keep copies a request, or returns nil where there is no room.
func (s *Store) keep(in *machine.In, count uint32) *held {
	class := 0
	if n := len(in.Payload); n > 1<<smallClass {
		class = bits.Len(uint(n-1)) - smallClass
	}
	size := 1 << (class + smallClass)
	if class >= classes || s.used+size > s.limit {
		return nil
	}
	s.used += size
	var h *held
	if k := len(s.free[class]) - 1; k >= 0 {
		h = s.free[class][k]
		s.free[class] = s.free[class][:k]
		s.spare -= size
	} else {
		h = &held{room: make([]byte, size), class: uint8(class)}
	}
	h.In, h.count, h.next = *in, count, nil
	h.Payload = h.room[:copy(h.room, in.Payload)]
	return h
}

// give takes a copy back.
func (s *Store) give(h *held) {
	size := 1 << (h.class + smallClass)
	s.used -= size
	if s.spare+size <= spareLimit {
		s.spare += size
		s.free[h.class] = append(s.free[h.class], h)
	}
}

func (s *Store) board() *board {
	b := take(&s.boards)
	if b == nil {
		b = &board{}
	}
	*b = board{list: b.list[:0]}
	return b
}

func (s *Store) order() *reorder {
	o := take(&s.orders)
	if o == nil {
		o = &reorder{}
	}
	o.runs, o.news = o.runs[:0], 0
	return o
}

func (s *Store) partList() []resource { return take(&s.parts)[:0] }

// take takes the last element off a list, the zero value where there is none.
func take[T any](list *[]T) (v T) {
	if k := len(*list) - 1; k >= 0 {
		v, (*list)[k] = (*list)[k], v
		*list = (*list)[:k]
	}
	return v
}

// put gives an element back to a list of spare ones.
func put[T any](list *[]T, v T) {
	if len(*list) < spareLists {
		*list = append(*list, v)
	}
}
