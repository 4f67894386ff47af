package coll

import "context"

// AllReduce combines the members' src at all members, element by element. All src and dst have the
// same length. dst may be src. All members get the same bits, also of floating-point numbers.
func AllReduce[T any](ctx context.Context, g *Group, dst, src []T, op Op[T]) error {
	n := g.Size()
	automatic := RecursiveDoubling
	if len(raw(src)) >= longReduce && len(src) >= n {
		automatic = Rabenseifner
		switch {
		case n <= maxPairs:
			automatic = Pairwise
		case n&(n-1) != 0 && !op.Ordered:
			automatic = Ring
		}
	}
	other := automatic
	if g.useMapped(len(raw(src))) {
		automatic = Mapped
	}
	c, err := reduce(ctx, g, OpAllReduce, op, automatic)
	if err != nil {
		return err
	}
	c.need("dst", len(dst), len(src))
	switch {
	case !c.ok(), c.isMapped(other) && c.allReduceMapped(dst, src, other):
	case n == 1:
		copy(dst, src)
	case c.algorithm == Ring:
		c.allReduceRing(dst, src)
	case c.algorithm == Pairwise:
		c.allReducePairs(dst, src)
	default:
		f := c.fold()
		acc := c.foldIn(&f, dst, src)
		if f.member >= 0 {
			if c.algorithm == Rabenseifner {
				c.halve(&f, dst, acc)
				c.double(&f, dst)
			} else {
				c.allReduceDoubling(&f, dst, acc)
			}
		}
		c.foldOut(&f, dst)
	}
	return c.result()
}

// allReduceDoubling exchanges all elements at doubling distances. The two members of an exchange
// compute the same.
func (c *reduction[T]) allReduceDoubling(f *fold, dst, acc []T) {
	in := c.scratch(len(dst))
	for mask := 1; mask < f.size && c.ok(); mask *= 2 {
		r := f.rank(f.member ^ mask)
		if c.exchange(r, raw(acc), r, raw(in)) {
			c.merge(dst, acc, in, f.member&mask != 0)
		}
		acc = dst
	}
}

// lookahead is how many segments a ring receives before it needs them.
const lookahead = 4

// A piece is a segment of a block that travels along a ring.
type piece struct{ lo, hi int }

// pieces returns the segments of the block i of n elements, at least one.
func pieces(b blocks, i, step int) (list []piece) {
	lo, end := b.start(i), b.start(i+1)
	for ; lo == b.start(i) || lo < end; lo += step {
		list = append(list, piece{lo, min(lo+step, end)})
	}
	return list
}

// allReduceRing sends blocks once around the ring, where each member combines its elements with
// them, and then the results. Segments travel on as soon as they are combined.
func (c *reduction[T]) allReduceRing(dst, src []T) {
	n, r := c.g.Size(), c.g.rank
	right, left := (r+1)%n, (r-1+n)%n
	parts, step := blocks{len(src), n}, c.step()
	var arriving []piece
	for s := range n - 1 {
		arriving = append(arriving, pieces(parts, (r-s-1+n)%n, step)...)
	}
	var in [lookahead][]T
	var posts [lookahead]*receive
	next := 0 // to post
	post := func() {
		if next < len(arriving) {
			p := arriving[next]
			if k := next % lookahead; in[k] == nil {
				in[k] = c.scratch(min(step, parts.start(1)))
			}
			posts[next%lookahead] = c.post(left, raw(in[next%lookahead][:p.hi-p.lo]))
			next++
		}
	}
	for range lookahead {
		post()
	}
	for _, p := range pieces(parts, r, step) {
		c.send(right, raw(src[p.lo:p.hi]))
	}
	for i, p := range arriving {
		x := posts[i%lookahead]
		if x == nil || !c.wait(x) {
			return
		}
		c.combine(dst[p.lo:p.hi], in[i%lookahead][:p.hi-p.lo], src[p.lo:p.hi])
		c.send(right, raw(dst[p.lo:p.hi]))
		post()
	}
	c.ringResults(dst, parts, step)
}

// ringResults receives the other blocks of the result, and passes on all but those that the next
// member has.
func (c *reduction[T]) ringResults(dst []T, parts blocks, step int) {
	n, r := c.g.Size(), c.g.rank
	right, left := (r+1)%n, (r-1+n)%n
	var arriving []piece
	keep := 0 // from here the next member has them
	for s := range n - 1 {
		if s == n-2 {
			keep = len(arriving)
		}
		arriving = append(arriving, pieces(parts, (r-s+n)%n, step)...)
	}
	var posts [lookahead]*receive
	post := func(i int) {
		if i < len(arriving) {
			posts[i%lookahead] = c.post(left, raw(dst[arriving[i].lo:arriving[i].hi]))
		}
	}
	for i := range lookahead {
		post(i)
	}
	for i, p := range arriving {
		x := posts[i%lookahead]
		if x == nil || !c.wait(x) {
			return
		}
		if i < keep {
			c.send(right, raw(dst[p.lo:p.hi]))
		}
		post(i + lookahead)
	}
}
