package coll

import "context"

// AllToAll sends to each member its part of src, and collects their parts: with n members,
// dst[r × k:] gets the k = len(src) / n elements that rank r has for this member in its
// src. dst has the length of src.
func AllToAll[T any](ctx context.Context, g *Group, dst, src []T) error {
	n := g.Size()
	automatic := Bruck
	if len(raw(src))/n >= longExchange || n < 4 {
		automatic = Pairwise
	}
	other := automatic
	if len(raw(src)) <= mappedRound && g.useMapped(len(raw(src))) {
		automatic = Mapped
	}
	c, err := g.begin(ctx, OpAllToAll, g.choose(OpAllToAll, automatic))
	if err != nil {
		return err
	}
	check[T](c)
	c.need("dst", len(dst), len(src))
	c.need("src", len(src), len(src)/n*n)
	if c.ok() {
		in, out, k := raw(dst), raw(src), len(raw(src))/n
		switch {
		case c.isMapped(other) && c.allToAllMapped(in, out, k, other):
		case c.algorithm == Bruck:
			c.exchangeBruck(in, out, k)
		default:
			c.exchangePairs(func(r int) []byte { return in[r*k : (r+1)*k] }, func(r int) []byte { return out[r*k : (r+1)*k] })
		}
	}
	return c.result()
}

// AllToAllV is AllToAll for parts of different lengths: src has out[r] elements for rank r, and dst
// gets in[r] elements of it, in the order of the ranks.
func AllToAllV[T any](ctx context.Context, g *Group, dst []T, in []int, src []T, out []int) error {
	c, err := g.begin(ctx, OpAllToAll, Pairwise)
	if err != nil {
		return err
	}
	check[T](c)
	to, from := c.offsets("dst", in, len(dst)), c.offsets("src", out, len(src))
	if c.ok() {
		c.need("the own part", in[g.rank], out[g.rank])
	}
	if c.ok() {
		c.exchangePairs(func(r int) []byte { return raw(dst[to[r]:to[r+1]]) }, func(r int) []byte { return raw(src[from[r]:from[r+1]]) })
	}
	return c.result()
}

// exchangePairs exchanges with one other member after the other, so that each has one partner at
// a time.
func (c *call) exchangePairs(in, out func(r int) []byte) {
	n, r := c.g.Size(), c.g.rank
	copy(in(r), out(r))
	for d := 1; d < n && c.ok(); d++ {
		to, from := (r+d)%n, (r-d+n)%n
		c.exchange(to, out(to), from, in(from))
	}
}

// exchangeBruck sends each block of k bytes along the bits of its distance, together with others.
func (c *call) exchangeBruck(dst, src []byte, k int) {
	n, r := c.g.Size(), c.g.rank
	all := c.take(n * k) // block i has come i steps less than its whole distance
	out, in := c.take((n+1)/2*k), c.take((n+1)/2*k)
	if !c.ok() {
		return
	}
	copy(all, src[r*k:])
	copy(all[(n-r)*k:], src[:r*k])
	for d := 1; d < n; d *= 2 {
		m := 0
		for i := d; i < n; i++ {
			if i&d != 0 {
				m += copy(out[m:], all[i*k:(i+1)*k])
			}
		}
		if !c.exchange((r+d)%n, out[:m], (r-d+n)%n, in[:m]) {
			return
		}
		m = 0
		for i := d; i < n; i++ {
			if i&d != 0 {
				m += copy(all[i*k:(i+1)*k], in[m:])
			}
		}
	}
	for i := range n {
		copy(dst[(r-i+n)%n*k:][:k], all[i*k:])
	}
}
