package coll

import "unsafe"

const (
	// mappedRound is the most bytes that a member offers at once in an all-reduce. It bounds the memory
	// for copies and results.
	mappedRound = 8 << 20

	// mappedStride is how many bytes of each member are combined at a time. The sum stays in the
	// processor's nearest cache.
	mappedStride = 8 << 10
)

// allReduceMapped is for members on one host that read each other's memory in place, in rounds:
//
//  1. Each member offers its elements: where they are, if that is in memory of Alloc, or else a copy.
//  2. It combines one block of the elements of all members, in the order of the ranks.
//  3. It copies the other blocks of the result from the members that have combined them.
//
// What a member has offered does not change before the others have taken it: its elements before all have
// done the second step, its block of the result before all make another offer.
//
// It returns false if the call goes on with another algorithm.
func (c *reduction[T]) allReduceMapped(dst, src []T, other Algorithm) bool {
	var one T
	size := int(unsafe.Sizeof(one))
	if size == 0 {
		c.algorithm = other
		return false
	}
	n := c.g.Size()
	step := max(1, mappedRound/size)
	for lo := 0; lo == 0 || lo < len(src); lo += step {
		hi := min(lo+step, len(src))
		result := blocks{hi - lo, n}.start(1) * size // the longest block
		if !c.offer(asked{raw(src[lo:hi]), len(src) * size, result}, other) {
			return c.err != nil
		}
		c.combineOffers(dst[lo:hi], src[lo:hi])
	}
	return true
}

// combineOffers combines this member's block of what was offered, and copies the blocks of the others.
func (c *reduction[T]) combineOffers(dst, src []T) {
	g := c.g
	m := g.mapping
	parts := blocks{len(src), g.Size()}
	lo, hi := parts.start(g.rank), parts.start(g.rank+1)
	if from := offeredByAll(c, src, lo, hi); hi > lo && c.err == nil {
		c.combineAll(view[T](m.result.bytes)[:hi-lo], dst[lo:hi], from)
	}
	c.done()
	c.others(func(r int) {
		lo, hi := parts.start(r), parts.start(r+1)
		copy(dst[lo:hi], offered[T](c.call, r, &m.offers[r].Result, 0, hi-lo))
	})
}

// offeredByAll returns the elements [lo, hi) of each member, by rank. Src are this member's.
func offeredByAll[T any](c *reduction[T], src []T, lo, hi int) [][]T {
	from := make([][]T, c.g.Size())
	for r := range from {
		if r == c.g.rank {
			from[r] = src[lo:hi]
		} else {
			from[r] = offered[T](c.call, r, &c.g.mapping.offers[r].Source, lo, hi-lo)
		}
	}
	return from
}

// combineAll combines the elements of all members in the order of the ranks, and copies the result.
func (c *reduction[T]) combineAll(result, dst []T, from [][]T) {
	var one T
	step := max(1, mappedStride/int(unsafe.Sizeof(one)))
	for lo := 0; lo < len(result); lo += step {
		hi := min(lo+step, len(result))
		sum := result[lo:hi]
		c.combine(sum, from[0][lo:hi], from[1][lo:hi])
		for _, x := range from[2:] {
			c.combine(sum, sum, x[lo:hi])
		}
		copy(dst[lo:hi], sum)
	}
}
