package coll

import "context"

// Scatter divides the root's src between the members: rank r gets the elements from
// r × len(dst). All dst have the same length, and the root's src the sum. The others' src is not
// used.
func Scatter[T any](ctx context.Context, g *Group, root int, dst, src []T) error {
	automatic := Binomial
	if len(raw(dst)) >= longGather {
		automatic = Linear
	}
	c, err := g.begin(ctx, OpScatter, g.choose(OpScatter, automatic))
	if err != nil {
		return err
	}
	check[T](c)
	c.root(root)
	if g.rank == root {
		c.need("src", len(src), len(dst)*g.Size())
	}
	switch in, out := raw(dst), raw(src); {
	case !c.ok():
	case c.algorithm == Binomial:
		c.scatterBinomial(root, in, out)
	default:
		c.scatterLinear(root, in, func(r int) []byte { return out[r*len(in) : (r+1)*len(in)] })
	}
	return c.result()
}

// ScatterV is Scatter for parts of different lengths: rank r gets counts[r] elements. Counts are used
// at the root only.
func ScatterV[T any](ctx context.Context, g *Group, root int, dst, src []T, counts []int) error {
	c, err := g.begin(ctx, OpScatter, Linear)
	if err != nil {
		return err
	}
	check[T](c)
	c.root(root)
	var at []int
	if g.rank == root {
		at = c.offsets("src", counts, len(src))
		if c.ok() {
			c.need("dst", len(dst), counts[root])
		}
	}
	if c.ok() {
		c.scatterLinear(root, raw(dst), func(r int) []byte { return raw(src[at[r]:at[r+1]]) })
	}
	return c.result()
}

// scatterLinear sends a part to each member.
func (c *call) scatterLinear(root int, dst []byte, part func(r int) []byte) {
	g := c.g
	if g.rank != root {
		c.receive(root, dst)
		return
	}
	for r := range g.Size() {
		if r != root {
			c.send(r, part(r))
		}
	}
	copy(dst, part(root))
}

// scatterBinomial sends the parts of whole subtrees along the tree of broadcastBinomial.
func (c *call) scatterBinomial(root int, dst, src []byte) {
	n, k := c.g.Size(), len(dst)
	v := (c.g.rank - root + n) % n
	size := subtree(v, n)
	all := src
	switch {
	case v == 0 && root != 0: // from ranks to distances
		if all = c.take(n * k); c.ok() {
			copy(all, src[root*k:])
			copy(all[(n-root)*k:], src[:root*k])
		}
	case v != 0 && size > 1:
		all = c.take(size * k)
	case v != 0:
		all = dst
	}
	if !c.ok() || v != 0 && !c.receive((v-v&-v+root)%n, all[:size*k]) {
		return
	}
	mask := 1
	for mask < size {
		mask *= 2
	}
	for mask /= 2; mask > 0; mask /= 2 {
		if mask < size {
			below := subtree(v+mask, n)
			c.send((v+mask+root)%n, all[mask*k:(mask+below)*k])
		}
	}
	if size > 1 || v == 0 {
		copy(dst, all[:k])
	}
}
