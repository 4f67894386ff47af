package rc

import (
	"softrdma/internal/rc/reorder"
	"softrdma/internal/rc/scoreboard"
)

// A Store lends the queue pairs of one lane what they need while packets are missing:
// reorder buffers, scoreboards, and lists of parts of READs. A queue pair without a
// loss holds nothing of it. Whoever holds the lane may use it.
type Store struct {
	pool   *reorder.Pool
	boards []*scoreboard.Board
	parts  [][]resource
}

// DefaultStore is a good limit for NewStore.
const DefaultStore = 64 << 20

// spareLists bounds the scoreboards, and the lists of parts, that a Store keeps unused.
const spareLists = 64

// NewStore makes a store that holds copies of at most limit bytes of packets.
func NewStore(limit int) *Store { return &Store{pool: reorder.NewPool(limit)} }

// board lends a scoreboard; first is the oldest unacknowledged sequence number.
func (s *Store) board(first uint32) *scoreboard.Board {
	b := take(&s.boards)
	if b == nil {
		b = &scoreboard.Board{}
	}
	b.Reset(first)
	return b
}

func (s *Store) partList() []resource { return take(&s.parts)[:0] }

// take removes the last element of a list of spare ones, and returns the zero value if
// there is none.
func take[T any](list *[]T) (v T) {
	if k := len(*list) - 1; k >= 0 {
		v, (*list)[k] = (*list)[k], v
		*list = (*list)[:k]
	}
	return v
}

// put returns an element to a list of spare ones.
func put[T any](list *[]T, v T) {
	if len(*list) < spareLists {
		*list = append(*list, v)
	}
}
