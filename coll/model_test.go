package coll_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/coll"
	"softrdma/msg"
)

// lengths are those of a member's part: none, one element, some, and so many that Auto takes the
// algorithms for long messages.
var lengths = []int{0, 1, 7, 1000, 20_001}

// An affine is the function x → a·x + b modulo 2³². Composition is associative and ordered.
type affine struct{ A, B uint32 }

// compose is the Op of composition: left after right.
var compose = coll.Op[affine]{Ordered: true, Combine: func(dst, left, right []affine) {
	for i := range dst {
		dst[i] = affine{left[i].A * right[i].A, left[i].A*right[i].B + left[i].B}
	}
}}

// data returns the elements of each of n members.
func data(n, length int) [][]affine {
	all := make([][]affine, n)
	for r := range all {
		all[r] = make([]affine, length)
		for i := range all[r] {
			all[r][i] = affine{rand.Uint32() | 1, rand.Uint32()}
		}
	}
	return all
}

// folded combines elements of members in rank order.
func folded(op coll.Op[affine], all [][]affine) []affine {
	sum := slices.Clone(all[0])
	for _, x := range all[1:] {
		op.Combine(sum, sum, x)
	}
	return sum
}

// plus is an Op that may be used in any order.
var plus = coll.Each(func(x, y affine) affine { return affine{x.A + y.A, x.B ^ y.B} })

// A trial is one operation on all members with a result that a model knows.
type trial struct {
	operation coll.Operation
	call      func(ctx context.Context, g *coll.Group, root int, dst, src []affine, op coll.Op[affine]) error

	in  func(n, length int) int // the length of src, for a part's length
	out func(n, length int) int // the length of dst

	// want returns the expected dst of a member, nil if it does not count.
	want func(r, root, length int, all [][]affine, op coll.Op[affine]) []affine
}

// severalSegments is a length of which each member's block has several segments.
const severalSegments = 400_003

func one(_, length int) int  { return length }
func many(n, length int) int { return n * length }

var trials = map[string]trial{
	"Broadcast": {coll.OpBroadcast, func(ctx context.Context, g *coll.Group, root int, dst, src []affine, _ coll.Op[affine]) error {
		if g.Rank() == root {
			copy(dst, src)
		}
		return coll.Broadcast(ctx, g, root, dst)
	}, one, one, func(_, root, _ int, all [][]affine, _ coll.Op[affine]) []affine { return all[root] }},
	"Reduce": {coll.OpReduce, coll.Reduce[affine], one, one, func(r, root, _ int, all [][]affine, op coll.Op[affine]) []affine {
		if r != root {
			return nil
		}
		return folded(op, all)
	}},
	"AllReduce": {coll.OpAllReduce, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, op coll.Op[affine]) error {
		return coll.AllReduce(ctx, g, dst, src, op)
	}, one, one, func(_, _, _ int, all [][]affine, op coll.Op[affine]) []affine { return folded(op, all) }},
	"AllReduce in place": {coll.OpAllReduce, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, op coll.Op[affine]) error {
		copy(dst, src)
		return coll.AllReduce(ctx, g, dst, dst, op)
	}, one, one, func(_, _, _ int, all [][]affine, op coll.Op[affine]) []affine { return folded(op, all) }},
	"ReduceScatter": {coll.OpReduceScatter, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, op coll.Op[affine]) error {
		return coll.ReduceScatter(ctx, g, dst, src, op)
	}, many, one, func(r, _, length int, all [][]affine, op coll.Op[affine]) []affine {
		return folded(op, all)[r*length:][:length]
	}},
	"Scan": {coll.OpScan, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, op coll.Op[affine]) error {
		return coll.Scan(ctx, g, dst, src, op)
	}, one, one, func(r, _, _ int, all [][]affine, op coll.Op[affine]) []affine { return folded(op, all[:r+1]) }},
	"ExScan": {coll.OpScan, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, op coll.Op[affine]) error {
		return coll.ExScan(ctx, g, dst, src, op)
	}, one, one, func(r, _, length int, all [][]affine, op coll.Op[affine]) []affine {
		if r == 0 {
			return make([]affine, length) // unchanged
		}
		return folded(op, all[:r])
	}},
	"Gather": {coll.OpGather, func(ctx context.Context, g *coll.Group, root int, dst, src []affine, _ coll.Op[affine]) error {
		return coll.Gather(ctx, g, root, dst, src)
	}, one, many, func(r, root, _ int, all [][]affine, _ coll.Op[affine]) []affine {
		if r != root {
			return nil
		}
		return slices.Concat(all...)
	}},
	"Scatter": {coll.OpScatter, func(ctx context.Context, g *coll.Group, root int, dst, src []affine, _ coll.Op[affine]) error {
		return coll.Scatter(ctx, g, root, dst, src)
	}, many, one, func(r, root, length int, all [][]affine, _ coll.Op[affine]) []affine {
		return all[root][r*length:][:length]
	}},
	"AllGather": {coll.OpAllGather, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, _ coll.Op[affine]) error {
		return coll.AllGather(ctx, g, dst, src)
	}, one, many, func(_, _, _ int, all [][]affine, _ coll.Op[affine]) []affine { return slices.Concat(all...) }},
	"AllGather in place": {coll.OpAllGather, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, _ coll.Op[affine]) error {
		own := dst[g.Rank()*len(src):][:len(src)]
		copy(own, src)
		return coll.AllGather(ctx, g, dst, own)
	}, one, many, func(_, _, _ int, all [][]affine, _ coll.Op[affine]) []affine { return slices.Concat(all...) }},
	"AllToAll": {coll.OpAllToAll, func(ctx context.Context, g *coll.Group, _ int, dst, src []affine, _ coll.Op[affine]) error {
		return coll.AllToAll(ctx, g, dst, src)
	}, many, many, func(r, _, length int, all [][]affine, _ coll.Op[affine]) (want []affine) {
		for _, x := range all {
			want = append(want, x[r*length:][:length]...)
		}
		return want
	}},
}

// run executes a trial and compares the results with the model.
func (x *trial) run(t testing.TB, all []*coll.Group, root, length int, op coll.Op[affine]) {
	t.Helper()
	n := len(all)
	src := data(n, x.in(n, length))
	before := make([][]affine, n)
	dst := make([][]affine, n)
	for r := range n {
		before[r], dst[r] = slices.Clone(src[r]), make([]affine, x.out(n, length))
	}
	together(t, all, func(g *coll.Group) error {
		return x.call(within(t), g, root, dst[g.Rank()], src[g.Rank()], op)
	})
	for r := range n {
		if want := x.want(r, root, length, src, op); want != nil && !slices.Equal(dst[r], want) {
			t.Fatalf("%v of %d members, root %d, parts of %d elements: rank %d has another result", x.operation, n, root, length, r)
		}
		if !slices.Equal(src[r], before[r]) {
			t.Fatalf("%v of %d members, root %d, parts of %d elements: rank %d has another source", x.operation, n, root, length, r)
		}
	}
}

// Each operation has the result of the model, with each algorithm, number of members and length.
// Roots alternate.
func TestOperationsHaveTheModelsResults(t *testing.T) {
	const most = 9
	w := openWorkers(t, most, msg.Config{})
	for n := 1; n <= most; n++ {
		if testing.Short() && n != 1 && n != 2 && n != 5 {
			continue
		}
		all := w.groups(t, n)
		for name, x := range trials {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				for _, a := range append(x.operation.Algorithms(), coll.Auto) {
					for _, g := range all {
						if err := g.SetAlgorithm(x.operation, a); err != nil {
							t.Fatal(err)
						}
					}
					for i, length := range lengths {
						for _, op := range []coll.Op[affine]{plus, compose} {
							if op.Ordered && a == coll.Ring {
								continue
							}
							x.run(t, all, (i+n)%n, length, op)
						}
					}
				}
			})
		}
		closeAll(t, all)
	}
}

// Operations have the model's results on other devices, too.
func TestOperationsOnIWARP(t *testing.T) {
	const n = 3
	w := openNamed(t, "iwarp:", n, msg.Config{})
	all := w.groups(t, n)
	for _, x := range trials {
		for _, length := range lengths {
			x.run(t, all, 1, length, compose)
		}
	}
	closeAll(t, all)
}

// Blocks of several segments have the result of the model.
func TestLongOperationsHaveTheModelsResults(t *testing.T) {
	const most = 5
	w := openWorkers(t, most, msg.Config{})
	for n := 2; n <= most; n++ {
		if testing.Short() && n > 3 {
			break
		}
		all := w.groups(t, n)
		for _, name := range []string{"AllReduce", "AllReduce in place", "Reduce", "Broadcast"} {
			x := trials[name]
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				for _, a := range x.operation.Algorithms() {
					for _, g := range all {
						if err := g.SetAlgorithm(x.operation, a); err != nil {
							t.Fatal(err)
						}
					}
					x.run(t, all, n-1, severalSegments, plus)
				}
			})
		}
		closeAll(t, all)
	}
}
