package coll

import "context"

// Barrier waits until all members have called it.
func Barrier(ctx context.Context, g *Group) error {
	c, err := g.begin(ctx, OpBarrier, g.choose(OpBarrier, Dissemination))
	if err != nil {
		return err
	}
	n := g.Size()
	for d := 1; d < n && c.ok(); d *= 2 {
		c.exchange((g.rank+d)%n, nil, (g.rank-d+n)%n, nil)
	}
	return c.result()
}
