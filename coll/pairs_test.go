package coll_test

import (
	"fmt"
	"testing"

	"softrdma/coll"
	"softrdma/msg"
)

// A block may have more segments than a member receives ahead, and src may be dst.
func TestPairwiseAllReduceOfManySegmentsIsRight(t *testing.T) {
	const n, length = 3, 4_500_001 // 5 segments and a few bytes in each block
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	ctx := within(t)
	together(t, all, func(g *coll.Group) error {
		if err := g.SetAlgorithm(coll.OpAllReduce, coll.Pairwise); err != nil {
			return err
		}
		x := make([]int32, length)
		for i := range x {
			x[i] = int32(i * (g.Rank() + 1))
		}
		if err := coll.AllReduce(ctx, g, x, x, coll.Sum[int32]()); err != nil {
			return err
		}
		for i := range x {
			if expected := int32(i * (1 + 2 + 3)); x[i] != expected {
				return fmt.Errorf("element %d is %d, expected %d", i, x[i], expected)
			}
		}
		return nil
	})
	closeAll(t, all)
}
