package coll

import "context"

// Scan combines the src of the members of ranks up to the member's own, element by element. All
// src and dst have the same length. dst may be src.
func Scan[T any](ctx context.Context, g *Group, dst, src []T, op Op[T]) error {
	return scan(ctx, g, dst, src, op, false)
}

// ExScan is Scan without the member's own src. It does not change dst of rank 0.
func ExScan[T any](ctx context.Context, g *Group, dst, src []T, op Op[T]) error {
	return scan(ctx, g, dst, src, op, true)
}

// scan sends to members at doubling distances what is combined of as many members.
func scan[T any](ctx context.Context, g *Group, dst, src []T, op Op[T], exclusive bool) error {
	c, err := reduce(ctx, g, OpScan, op, g.choose(OpScan, RecursiveDoubling))
	if err != nil {
		return err
	}
	c.need("dst", len(dst), len(src))
	n, r, k := g.Size(), g.rank, len(src)
	if !c.ok() {
		return c.result()
	}
	acc, next := src, c.scratch(k) // of this member and those before it
	in, spare := c.scratch(k), c.scratch(k)
	before := c.scratch(k) // of those before it
	begun := false
	for d := 1; d < n && c.ok(); d *= 2 {
		var p *receive
		if r >= d {
			p = c.post(r-d, raw(in))
		}
		if r+d < n {
			c.send(r+d, raw(acc))
		}
		if p == nil || !c.wait(p) {
			continue
		}
		if begun {
			c.combine(before, in, before)
		} else {
			copy(before, in)
			begun = true
		}
		c.combine(next, in, acc)
		c.flush() // of acc
		acc, next, spare = next, spare, next
	}
	c.flush()
	switch {
	case !c.ok():
	case !exclusive:
		copy(dst, acc)
	case r > 0:
		copy(dst, before)
	}
	return c.result()
}
