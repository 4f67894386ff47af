package coll

import "context"

// AllGather collects the members' data at all members: that of rank r in dst from r × len(src).
// All src have the same length, and dst the sum. The member's src may be its part of dst.
func AllGather[T any](ctx context.Context, g *Group, dst, src []T) error {
	automatic := Bruck
	if len(raw(src)) >= longGather {
		automatic = Ring
	}
	other := automatic
	if g.useMapped(len(raw(src))) {
		automatic = Mapped
	}
	c, err := g.begin(ctx, OpAllGather, g.choose(OpAllGather, automatic))
	if err != nil {
		return err
	}
	check[T](c)
	c.need("dst", len(dst), len(src)*g.Size())
	if c.ok() {
		in, k := raw(dst), len(raw(src))
		copy(in[g.rank*k:], raw(src))
		switch {
		case c.isMapped(other) && c.allGatherMapped(in, raw(src), other):
		case c.algorithm == Bruck:
			c.gatherBruck(in, k)
		default:
			c.ring(g.rank, func(i int) []byte { return in[i*k : (i+1)*k] })
		}
	}
	return c.result()
}

// AllGatherV is AllGather for data of different lengths: rank r has counts[r] elements. All members
// have the same counts.
func AllGatherV[T any](ctx context.Context, g *Group, dst, src []T, counts []int) error {
	c, err := g.begin(ctx, OpAllGather, Ring)
	if err != nil {
		return err
	}
	check[T](c)
	at := c.offsets("dst", counts, len(dst))
	if c.ok() {
		c.need("src", len(src), counts[g.rank])
	}
	if c.ok() {
		copy(dst[at[g.rank]:], src)
		c.ring(g.rank, func(i int) []byte { return raw(dst[at[i]:at[i+1]]) })
	}
	return c.result()
}

// gatherBruck gathers blocks of k bytes, of which dst has this member's. In each step a member gets
// all blocks of the member at the distance, which has as many.
func (c *call) gatherBruck(dst []byte, k int) {
	n, r := c.g.Size(), c.g.rank
	all := dst // in the order of the distances from this member
	if r != 0 {
		if all = c.take(n * k); !c.ok() {
			return
		}
		copy(all, dst[r*k:(r+1)*k])
	}
	for d := 1; d < n; d *= 2 {
		m := min(d, n-d) * k
		if !c.exchange((r-d+n)%n, all[:m], (r+d)%n, all[d*k:d*k+m]) {
			return
		}
	}
	if r != 0 {
		copy(dst[r*k:], all[:(n-r)*k])
		copy(dst[:r*k], all[(n-r)*k:])
	}
}
