package responder

import (
	"time"

	"softrdma/internal/rc/reorder"
)

// A Store lends the responders of one lane what they need while packets are missing:
// reorder buffers, and lists of parts of READs. The holder of the lane may use it.
type Store struct {
	pool  *reorder.Pool
	parts [][]resource
	wide  []*reordering // whose peers have asked for more
	kept  []*reordering // that remember more READs than usual
	swept time.Duration // when those that ask no more were looked for last
}

// spareLists bounds the lists of parts that a Store keeps unused.
const spareLists = 64

// NewStore makes a store that holds copies of at most limit bytes of packets.
func NewStore(limit int) *Store { return &Store{pool: reorder.NewPool(limit)} }

// Used is the number of bytes of copies that are lent.
func (s *Store) Used() int { return s.pool.Used() }

// partList lends a list of parts.
func (s *Store) partList() []resource {
	k := len(s.parts) - 1
	if k < 0 {
		return nil
	}
	list := s.parts[k]
	s.parts[k] = nil
	s.parts = s.parts[:k]
	return list
}

// returnParts takes a list of parts back.
func (s *Store) returnParts(list []resource) {
	clear(list)
	if len(s.parts) < spareLists {
		s.parts = append(s.parts, list[:0])
	}
}
