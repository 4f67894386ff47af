package coll

import "fmt"

// maxShort is the most bytes of all members together that they have on their boards in an all-reduce. It
// bounds what each member reads and combines.
const maxShort = 8 << 10

// A short has a member's elements of a short all-reduce. A board has two, which take turns: when the
// member changes one, all others have made their part of the all-reduce after its last use, so they do not
// read it any more.
type short struct {
	Word, Length uint64 // of the call
	Data         [maxShort / 2]byte
	_            [48]byte
}

// isShort reports whether the elements of an all-reduce fit on boards.
func (c *reduction[T]) isShort(src []T) bool {
	size := c.size()
	return size > 0 && len(src)*size <= maxShort/c.g.Size()
}

// allReduceShort is for elements that fit on boards. It has one step: each member combines the elements
// of all, in the order of the ranks.
func (c *reduction[T]) allReduceShort(dst, src []T) {
	m := c.g.mapping
	which := m.shorts % 2
	m.shorts++
	own := m.boards[c.g.rank]
	s := &own.shorts[which]
	n := copy(s.Data[:], raw(src))
	s.Word, s.Length = c.word, uint64(n)
	own.offer.Length = uint64(n) // for members with more elements, which look there
	c.done()
	c.others(true, func(r int) {
		b := m.boards[r]
		length, now := b.shorts[which].Length, b.shorts[which].Word == c.word
		if !now {
			length = b.offer.Length // it has more elements
		}
		if !now || length != uint64(n) {
			c.stop(r, fmt.Errorf("%w: it has %d bytes in %v, rank %d has %d", ErrLength, length, c.operation, c.g.rank, n))
		}
	})
	elements := func(r int) []T { return view[T](m.boards[r].shorts[which].Data[:n]) }
	c.combine(dst, elements(0), elements(1))
	for r := 2; r < c.g.Size(); r++ {
		c.combine(dst, dst, elements(r))
	}
}
