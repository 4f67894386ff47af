package coll

import (
	"context"
	"errors"
	"fmt"
)

// A reduction is a call that combines elements.
type reduction[T any] struct {
	*call
	op Op[T]
}

// reduce begins a reduction of src into dst, which have one length.
func reduce[T any](ctx context.Context, g *Group, o Operation, op Op[T], automatic Algorithm) (*reduction[T], error) {
	a := g.choose(o, automatic)
	if op.Ordered && a == Ring {
		return nil, fmt.Errorf("%v: %v with an ordered Op: %w", o, a, errors.ErrUnsupported)
	}
	c, err := g.begin(ctx, o, a)
	if err != nil {
		return nil, err
	}
	check[T](c)
	return &reduction[T]{c, op}, nil
}

// scratch returns n elements for the rest of the call.
func (c *reduction[T]) scratch(n int) []T {
	var one [1]T
	size := n * len(raw(one[:]))
	if size == 0 {
		return make([]T, n)
	}
	b := c.take(size)
	if c.err != nil {
		return make([]T, n)
	}
	return view[T](b)[:n:n]
}

// combine sets dst to left ∘ right, unless the call has ended.
func (c *reduction[T]) combine(dst, left, right []T) {
	if c.err == nil && len(dst) > 0 {
		c.op.Combine(dst, left, right)
	}
}

// merge sets dst to the combination of own, which is of this member, and other, which is of a
// member before or behind it.
func (c *reduction[T]) merge(dst, own, other []T, before bool) {
	if before {
		own, other = other, own
	}
	c.combine(dst, own, other)
}

// Reduce combines the members' src at the root, element by element. All src have the same length,
// and so has the root's dst, which may be src. The others' dst is not used.
func Reduce[T any](ctx context.Context, g *Group, root int, dst, src []T, op Op[T]) error {
	automatic := Binomial
	if len(raw(src)) >= longReduce && len(src) >= g.Size() {
		automatic = Rabenseifner
	}
	c, err := reduce(ctx, g, OpReduce, op, automatic)
	if err != nil {
		return err
	}
	c.root(root)
	if g.rank == root {
		c.need("dst", len(dst), len(src))
	}
	if c.ok() {
		switch {
		case g.Size() == 1:
			copy(dst, src)
		case c.algorithm == Rabenseifner:
			c.reduceScattered(root, dst, src)
		default:
			c.reduceBinomial(root, dst, src)
		}
	}
	return c.result()
}

// reduceBinomial combines along a tree. Each member combines with members of higher ranks before
// it sends, so that neighbors in rank order are combined. The tree ends at the root, or at rank 0
// if the order counts, which then sends to the root.
func (c *reduction[T]) reduceBinomial(root int, dst, src []T) {
	n, r := c.g.Size(), c.g.rank
	top := root
	if c.op.Ordered {
		top = 0
	}
	v := (r - top + n) % n
	acc, in := src, []T(nil)
	for mask := 1; mask < n && c.ok(); mask *= 2 {
		if v&mask != 0 {
			c.send((v-mask+top)%n, raw(acc))
			break
		}
		if v+mask >= n {
			continue
		}
		if in == nil {
			in = c.scratch(len(src))
		}
		c.receive((v+mask+top)%n, raw(in))
		out := acc
		if mask == 1 { // src stays as it is
			if out = dst; r != root {
				out = c.scratch(len(src))
			}
		}
		c.combine(out, acc, in)
		acc = out
	}
	switch {
	case top != root && r == top:
		c.send(root, raw(acc))
	case top != root && r == root:
		c.flush() // of dst
		c.receive(top, raw(dst))
	}
}

// reduceScattered combines a part at each member, which the root collects.
func (c *reduction[T]) reduceScattered(root int, dst, src []T) {
	work := dst
	if c.g.rank != root {
		work = c.scratch(len(src))
	}
	f := c.fold()
	acc := c.foldIn(&f, work, src)
	if f.member >= 0 {
		c.halve(&f, work, acc)
	}
	if !c.ok() {
		return
	}
	if c.g.rank != root {
		if f.member >= 0 {
			lo, hi := f.part(f.member, len(src))
			c.send(root, raw(work[lo:hi]))
		}
		return
	}
	var list []*receive
	for m := range f.size {
		if r := f.rank(m); r != root {
			lo, hi := f.part(m, len(src))
			list = append(list, c.post(r, raw(dst[lo:hi])))
		}
	}
	for _, p := range list {
		if p == nil || !c.wait(p) {
			return
		}
	}
}
