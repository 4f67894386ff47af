package rc

import (
	"softrdma/internal/rc/responder"
	"softrdma/internal/rc/scoreboard"
)

// A Store lends the queue pairs of one lane what they need while packets are missing:
// scoreboards, and what responders hold. A queue pair without a loss holds nothing of it.
// The holder of the lane may use it.
type Store struct {
	responder *responder.Store
	boards    []*scoreboard.Board
}

// DefaultStore is a good limit for NewStore.
const DefaultStore = 512 << 20

// spareBoards bounds the scoreboards that a Store keeps unused.
const spareBoards = 64

// NewStore makes a store that holds copies of at most limit bytes of packets.
func NewStore(limit int) *Store { return &Store{responder: responder.NewStore(limit)} }

// held is the store of responders, nil without a store.
func (s *Store) held() *responder.Store {
	if s == nil {
		return nil
	}
	return s.responder
}

// board lends a scoreboard; first is the oldest unacknowledged sequence number.
func (s *Store) board(first uint32) *scoreboard.Board {
	if len(s.boards) == 0 {
		s.boards = append(s.boards, &scoreboard.Board{})
	}
	k := len(s.boards) - 1
	b := s.boards[k]
	s.boards = s.boards[:k]
	b.Reset(first)
	return b
}

// returnBoard takes a scoreboard back.
func (s *Store) returnBoard(b *scoreboard.Board) {
	if len(s.boards) < spareBoards {
		s.boards = append(s.boards, b)
	}
}
