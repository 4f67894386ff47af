package coll

import "math/bits"

// A fold reduces a group to a power of two of members for algorithms that need it: of the first
// members, each of an even rank gives its elements to the next and gets the result in the end.
type fold struct {
	size   int // a power of two
	rest   int // members that give
	member int // this one's number among those that stay, -1 if it gives
}

func (c *call) fold() fold {
	n, r := c.g.Size(), c.g.rank
	f := fold{size: 1 << (bits.Len(uint(n)) - 1)}
	f.rest = n - f.size
	switch {
	case r >= 2*f.rest:
		f.member = r - f.rest
	case r%2 == 0:
		f.member = -1
	default:
		f.member = r / 2
	}
	return f
}

// rank returns the rank of a member that stays.
func (f *fold) rank(member int) int {
	if member < f.rest {
		return 2*member + 1
	}
	return member + f.rest
}

// part returns which of n elements a member has after halve: each exchange halves its part.
func (f *fold) part(member, n int) (lo, hi int) {
	hi = n
	for mask := 1; mask < f.size; mask *= 2 {
		lo, hi = half(lo, hi, member&mask != 0)
	}
	return lo, hi
}

// half returns the upper or lower half of a range.
func half(lo, hi int, upper bool) (int, int) {
	if mid := lo + (hi-lo+1)/2; upper {
		return mid, hi
	} else {
		return lo, mid
	}
}

// foldIn combines the elements of members that give with those of the next. It returns where this
// member's elements are: in work or still in src.
func (c *reduction[T]) foldIn(f *fold, work, src []T) []T {
	r := c.g.rank
	switch {
	case r >= 2*f.rest:
		return src
	case f.member < 0:
		c.send(r+1, raw(src))
		c.flush()
		return src
	}
	in := c.scratch(len(src))
	c.receive(r-1, raw(in))
	c.combine(work, in, src)
	return work
}

// foldOut gives the result to the members that have given.
func (c *reduction[T]) foldOut(f *fold, dst []T) {
	switch r := c.g.rank; {
	case r >= 2*f.rest:
	case f.member < 0:
		c.receive(r+1, raw(dst))
	default:
		c.send(r-1, raw(dst))
	}
}

// halve combines elements so that each member that stays has its part of the result in work. In each
// exchange a member gives half of its range and combines the other. Members at the distance 1 begin,
// so that neighbors in rank order are combined. Acc is work or src.
func (c *reduction[T]) halve(f *fold, work, acc []T) {
	lo, hi := 0, len(acc)
	in := c.scratch((hi - lo + 1) / 2)
	for mask := 1; mask < f.size && c.ok(); mask *= 2 {
		peer := f.member ^ mask
		upper := f.member&mask != 0
		keepLo, keepHi := half(lo, hi, upper)
		giveLo, giveHi := half(lo, hi, !upper)
		c.mergeFrom(f.rank(peer), work[keepLo:keepHi], acc[keepLo:keepHi], acc[giveLo:giveHi], in, upper)
		lo, hi, acc = keepLo, keepHi, work
	}
}

// mergeFrom gives some elements to a peer and combines those that the peer gives with own. It
// combines a segment while the next is on its way.
func (c *reduction[T]) mergeFrom(peer int, dst, own, give, in []T, before bool) {
	step := c.step()
	var list [64]*receive
	posts := list[:0]
	for lo := 0; lo == 0 || lo < len(dst); lo += step {
		hi := min(lo+step, len(dst))
		posts = append(posts, c.post(peer, raw(in[lo:hi])))
	}
	for lo := 0; lo == 0 || lo < len(give); lo += step {
		c.send(peer, raw(give[lo:min(lo+step, len(give))]))
	}
	for i, p := range posts {
		lo, hi := i*step, min((i+1)*step, len(dst))
		if p == nil || !c.wait(p) {
			return
		}
		c.merge(dst[lo:hi], own[lo:hi], in[lo:hi], before)
	}
	c.flush()
}

// step returns the number of elements in a segment.
func (c *reduction[T]) step() int {
	var one [1]T
	return max(1, segment/max(1, len(raw(one[:]))))
}

// double gathers the parts of halve at all members that stay, in the reverse order.
func (c *reduction[T]) double(f *fold, dst []T) {
	for mask := f.size / 2; mask > 0 && c.ok(); mask /= 2 {
		below := fold{size: mask} // the exchanges before this one
		lo, hi := below.part(f.member, len(dst))
		upper := f.member&mask != 0
		haveLo, haveHi := half(lo, hi, upper)
		wantLo, wantHi := half(lo, hi, !upper)
		r := f.rank(f.member ^ mask)
		c.exchange(r, raw(dst[haveLo:haveHi]), r, raw(dst[wantLo:wantHi]))
	}
}
