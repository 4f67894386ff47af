package coll

import "context"

// Broadcast copies the root's data to all members. Their slices have its length.
func Broadcast[T any](ctx context.Context, g *Group, root int, data []T) error {
	b := raw(data)
	automatic := Binomial
	if len(b) >= longBroadcast && g.Size() > 2 {
		automatic = ScatterAllGather
	}
	other := automatic
	if g.useMapped(len(b)) {
		automatic = Mapped
	}
	c, err := g.begin(ctx, OpBroadcast, g.choose(OpBroadcast, automatic))
	if err != nil {
		return err
	}
	check[T](c)
	c.root(root)
	switch {
	case !c.ok(), c.isMapped(other) && c.broadcastMapped(root, b, other):
	case c.algorithm == ScatterAllGather:
		c.broadcastScattered(root, b)
	default:
		c.broadcastBinomial(root, b)
	}
	return c.result()
}

// check ends the call if elements contain pointers.
func check[T any](c *call) {
	if err := checkElement[T](); err != nil {
		c.stop(c.g.rank, err)
	}
}

// broadcastBinomial sends along a tree: each member gets the data once, from the member whose
// distance from the root lacks its lowest bit.
func (c *call) broadcastBinomial(root int, b []byte) {
	n := c.g.Size()
	v := (c.g.rank - root + n) % n // distance from the root
	mask := 1
	for mask < n && v&mask == 0 {
		mask *= 2
	}
	if v != 0 && !c.receive((v-mask+root)%n, b) {
		return
	}
	for mask /= 2; mask > 0; mask /= 2 {
		if v+mask < n {
			c.send((v+mask+root)%n, b)
		}
	}
}

// broadcastScattered sends a block to each member, and the blocks along a ring.
func (c *call) broadcastScattered(root int, b []byte) {
	n := c.g.Size()
	v := (c.g.rank - root + n) % n // the block that the root sends to this member
	parts := blocks{len(b), n}
	switch {
	case v != 0:
		if !c.receive(root, of(b, parts, v)) {
			return
		}
	default:
		for i := 1; i < n; i++ {
			c.send((root+i)%n, of(b, parts, i))
		}
	}
	c.ring(v, func(i int) []byte { return of(b, parts, i) })
}

// ring gathers blocks at all members. This member has block number own and lies in the ring between
// the members that have the blocks before and behind it. It needs no block that it has.
func (c *call) ring(own int, block func(i int) []byte) {
	n := c.g.Size()
	right, left := (c.g.rank+1)%n, (c.g.rank-1+n)%n
	for s := range n - 1 {
		if !c.ok() {
			return
		}
		in := block((own - s - 1 + n) % n)
		p := c.post(left, in)
		c.send(right, block((own-s+n)%n))
		if p == nil || !c.wait(p) {
			return
		}
	}
}

// root ends the call if there is no such rank.
func (c *call) root(r int) {
	if r < 0 || r >= c.g.Size() {
		c.stop(c.g.rank, errRoot(r, c.g.Size()))
	}
}
