package coll

import "context"

// Barrier waits until all members have called it.
func Barrier(ctx context.Context, g *Group) error {
	automatic := Dissemination
	if g.useMapped(0) {
		automatic = Mapped
	}
	c, err := g.begin(ctx, OpBarrier, g.choose(OpBarrier, automatic))
	if err != nil {
		return err
	}
	if c.isMapped(Dissemination) {
		c.done()
		c.all()
		return c.result()
	}
	n := g.Size()
	for d := 1; d < n && c.ok(); d *= 2 {
		c.exchange((g.rank+d)%n, nil, (g.rank-d+n)%n, nil)
	}
	return c.result()
}
