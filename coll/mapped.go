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
// It returns false if the call continues with another algorithm.
func (c *reduction[T]) allReduceMapped(dst, src []T, other Algorithm) bool {
	if c.isShort(src) {
		c.allReduceShort(dst, src)
		return true
	}
	return c.mappedRounds(0, dst, src, true, other)
}

// reduceMapped is allReduceMapped of which the root alone copies the result.
func (c *reduction[T]) reduceMapped(root int, dst, src []T, other Algorithm) bool {
	return c.mappedRounds(root, dst, src, c.g.rank == root, other)
}

func (c *reduction[T]) mappedRounds(root int, dst, src []T, copies bool, other Algorithm) bool {
	size := c.size()
	if size == 0 {
		c.algorithm = other
		return false
	}
	n := c.g.Size()
	step := max(1, mappedRound/size)
	for lo := 0; lo == 0 || lo < len(src); lo += step {
		hi := min(lo+step, len(src))
		result := blocks{hi - lo, n}.start(1) * size // the longest block
		if !c.offer(offering{raw(src[lo:hi]), len(src) * size, root, result}, other) {
			return c.err != nil
		}
		to := []T(nil)
		if copies {
			to = dst[lo:hi]
		}
		c.combineOffers(to, src[lo:hi])
	}
	return true
}

// size returns the length of an element in bytes.
func (c *reduction[T]) size() int {
	var one T
	return int(unsafe.Sizeof(one))
}

// combineOffers combines this member's block of what was offered, and copies the blocks of the others
// unless dst is nil.
func (c *reduction[T]) combineOffers(dst, src []T) {
	g := c.g
	m := g.mapping
	parts := blocks{len(src), g.Size()}
	if lo, hi := parts.start(g.rank), parts.start(g.rank+1); hi > lo {
		sum := view[T](m.result.bytes)[:hi-lo]
		var own []T
		if dst != nil {
			own = dst[lo:hi]
		}
		c.combineAll(sum, own, src, lo)
	}
	c.done()
	c.others(true, func(r int) {
		if lo, hi := parts.start(r), parts.start(r+1); dst != nil {
			copy(dst[lo:hi], offered[T](c.call, r, &m.offers[r].Result, 0, hi-lo))
		}
	})
}

// reduceScatterMapped combines the elements of all members that this one gets, which begin at the element
// at of src.
func (c *reduction[T]) reduceScatterMapped(dst, src []T, at int, other Algorithm) bool {
	size := c.size()
	if size == 0 {
		c.algorithm = other
		return false
	}
	if !c.offer(offering{raw(src), len(src) * size, 0, len(dst) * size}, other) {
		return c.err != nil
	}
	var sum []T // dst may be a part of src, which others read
	if len(dst) > 0 {
		sum = view[T](c.g.mapping.result.bytes)[:len(dst)]
	}
	c.combineAll(sum, nil, src, at)
	c.done()
	if c.all() {
		copy(dst, sum)
	}
	return true
}

// combineAll combines elements of all members in the order of the ranks, those that this one has in src
// from the element at. It copies the result to dst unless that is nil.
func (c *reduction[T]) combineAll(result, dst, src []T, at int) {
	from := make([][]T, c.g.Size())
	for r := range from {
		if r == c.g.rank {
			from[r] = src[at : at+len(result)]
		} else {
			from[r] = offered[T](c.call, r, &c.g.mapping.offers[r].Source, at, len(result))
		}
	}
	step := max(1, mappedStride/c.size())
	for lo := 0; lo < len(result) && c.err == nil; lo += step {
		hi := min(lo+step, len(result))
		sum := result[lo:hi]
		c.combine(sum, from[0][lo:hi], from[1][lo:hi])
		for _, x := range from[2:] {
			c.combine(sum, sum, x[lo:hi])
		}
		if dst != nil {
			copy(dst[lo:hi], sum)
		}
	}
}
