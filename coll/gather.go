package coll

import "context"

// Gather collects the members' data at the root: that of rank r in dst from r × len(src). All src
// have the same length, and the root's dst the sum. The others' dst is not used.
func Gather[T any](ctx context.Context, g *Group, root int, dst, src []T) error {
	automatic := Binomial
	if len(raw(src)) >= longGather {
		automatic = Linear
	}
	c, err := g.begin(ctx, OpGather, g.choose(OpGather, automatic))
	if err != nil {
		return err
	}
	check[T](c)
	c.root(root)
	if g.rank == root {
		c.need("dst", len(dst), len(src)*g.Size())
	}
	switch in, out := raw(dst), raw(src); {
	case !c.ok():
	case c.algorithm == Binomial:
		c.gatherBinomial(root, in, out)
	default:
		c.gatherLinear(root, out, func(r int) []byte { return in[r*len(out) : (r+1)*len(out)] })
	}
	return c.result()
}

// GatherV is Gather for data of different lengths: rank r has counts[r] elements. Counts are used at
// the root only.
func GatherV[T any](ctx context.Context, g *Group, root int, dst, src []T, counts []int) error {
	c, err := g.begin(ctx, OpGather, Linear)
	if err != nil {
		return err
	}
	check[T](c)
	c.root(root)
	var at []int
	if g.rank == root {
		at = c.offsets("dst", counts, len(dst))
		if c.ok() {
			c.need("src", len(src), counts[root])
		}
	}
	if c.ok() {
		c.gatherLinear(root, raw(src), func(r int) []byte { return raw(dst[at[r]:at[r+1]]) })
	}
	return c.result()
}

// offsets returns where the parts with some lengths begin, and the end. It ends the call unless
// there is one for each member and their sum is n.
func (c *call) offsets(what string, counts []int, n int) []int {
	if len(counts) != c.g.Size() {
		c.need("counts", len(counts), c.g.Size())
		return nil
	}
	at := make([]int, 1, len(counts)+1)
	sum := 0
	for _, k := range counts {
		if k < 0 {
			c.need("a part", k, 0)
			return nil
		}
		sum += k
		at = append(at, sum)
	}
	c.need(what, n, sum)
	return at
}

// gatherLinear sends the data to the root, which has a place for that of each rank.
func (c *call) gatherLinear(root int, out []byte, place func(r int) []byte) {
	g := c.g
	if g.rank != root {
		c.send(root, out)
		return
	}
	copy(place(root), out)
	c.collect(func(r int) []byte { return place(r) }, root)
}

// collect receives a block of each other member than skip.
func (c *call) collect(place func(r int) []byte, skip int) {
	list := make([]*receive, 0, c.g.Size())
	for r := range c.g.Size() {
		if r != skip {
			list = append(list, c.post(r, place(r)))
		}
	}
	for _, p := range list {
		if p == nil || !c.wait(p) {
			return
		}
	}
}

// gatherBinomial collects along the tree of broadcastBinomial. A member's block and those of the
// members below it are in the order of their distances from the root.
func (c *call) gatherBinomial(root int, dst, src []byte) {
	n, k := c.g.Size(), len(src)
	v := (c.g.rank - root + n) % n
	size := subtree(v, n)
	all := dst // of a root of rank 0, whose distances are the ranks
	if root != 0 || v != 0 {
		if size == 1 {
			all = src
		} else {
			all = c.take(size * k)
		}
	}
	if !c.ok() {
		return
	}
	if size > 1 || v == 0 {
		copy(all, src)
	}
	for mask := 1; mask < size; mask *= 2 {
		if v+mask < n {
			below := min(subtree(v+mask, n), n-v-mask)
			if !c.receive((v+mask+root)%n, all[mask*k:(mask+below)*k]) {
				return
			}
		}
	}
	switch {
	case v != 0:
		c.send((v-v&-v+root)%n, all[:size*k])
	case root != 0: // from distances to ranks
		copy(dst[root*k:], all[:(n-root)*k])
		copy(dst[:root*k], all[(n-root)*k:])
	}
}

// subtree returns how many members the tree has at and below distance v.
func subtree(v, n int) int {
	if v == 0 {
		return n
	}
	return min(v&-v, n-v)
}
