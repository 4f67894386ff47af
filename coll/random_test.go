package coll_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"softrdma/coll"
	"softrdma/msg"
)

// counts draws the lengths of the parts of n members.
func counts(t *rapid.T, n int) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 3000), n, n).Draw(t, "counts")
}

func total(counts []int) (sum int) {
	for _, k := range counts {
		sum += k
	}
	return sum
}

// Random sequences of operations on random subgroups have the results of the model.
func TestRandomOperationsOnSubgroupsHaveTheModelsResults(t *testing.T) {
	const n = 6
	w := openWorkers(t, n, msg.Config{Eager: 1000, Unexpected: 8, Announced: 8})
	first := w.groups(t, n)
	names := make([]string, 0, len(trials))
	for name := range trials {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(r *rapid.T) {
		all := subgroup(t, r, first)
		for range rapid.IntRange(1, 5).Draw(r, "operations") {
			x := trials[rapid.SampledFrom(names).Draw(r, "operation")]
			a := rapid.SampledFrom(append(x.operation.Algorithms(), coll.Auto)).Draw(r, "algorithm")
			op := plus
			if rapid.Bool().Draw(r, "ordered") && a != coll.Ring {
				op = compose
			}
			for _, g := range all {
				if err := g.SetAlgorithm(x.operation, a); err != nil {
					t.Fatal(err)
				}
			}
			x.run(t, all, rapid.IntRange(0, len(all)-1).Draw(r, "root"), rapid.IntRange(0, 20_000).Draw(r, "length"), op)
		}
		together(t, all, func(g *coll.Group) error { return g.Close(within(t)) })
	})
	closeAll(t, first)
}

// subgroup splits a group at random and returns the largest part, in the order of its ranks. The
// order is a random one.
func subgroup(t testing.TB, r *rapid.T, first []*coll.Group) []*coll.Group {
	n := len(first)
	colors := rapid.SliceOfN(rapid.IntRange(-1, 1), n, n).Draw(r, "colors")
	colors[0] = 0
	keys := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}[:n]).Draw(r, "keys")
	made := make([]*coll.Group, n)
	together(t, first, func(g *coll.Group) (err error) {
		made[g.Rank()], err = g.Split(within(t), colors[g.Rank()], keys[g.Rank()])
		return err
	})
	var all []*coll.Group
	for i, g := range made {
		if (g == nil) != (colors[i] < 0) {
			t.Fatalf("member %d with color %d has the group %v", i, colors[i], g)
		}
		if colors[i] == 0 {
			all = append(all, g)
		}
	}
	for _, g := range all {
		if g.Size() != len(all) {
			t.Fatalf("a group of %d members, expected %d", g.Size(), len(all))
		}
	}
	slices.SortFunc(all, func(a, b *coll.Group) int { return a.Rank() - b.Rank() })
	member := func(g *coll.Group) int { return slices.Index(made, g) }
	for i := range all[1:] {
		if all[i].Rank() != i || keys[member(all[i])] > keys[member(all[i+1])] {
			t.Fatalf("keys %v of colors %v are not in the order of the ranks", keys, colors)
		}
	}
	return all
}

// Operations with parts of different lengths have the results of the model.
func TestPartsOfDifferentLengths(t *testing.T) {
	const n = 5
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	rapid.Check(t, func(r *rapid.T) {
		matrix := make([][]int, n) // elements from one rank for another
		for i := range matrix {
			matrix[i] = counts(r, n)
		}
		k := counts(r, n)
		root := rapid.IntRange(0, n-1).Draw(r, "root")
		whole := data(1, total(k))[0]
		at := make([]int, n+1)
		for i := range n {
			at[i+1] = at[i] + k[i]
		}
		src := data(n, total(k))
		together(t, all, func(g *coll.Group) error {
			me := g.Rank()
			same := func(name string, err error, found, want []affine) {
				if err != nil || !slices.Equal(found, want) {
					t.Errorf("%s at rank %d: %v, as expected: %v", name, me, err, slices.Equal(found, want))
				}
			}
			part := make([]affine, k[me])
			err := coll.ScatterV(within(t), g, root, part, whole, k)
			same("ScatterV", err, part, whole[at[me]:at[me+1]])
			gathered := make([]affine, len(whole))
			err = coll.AllGatherV(within(t), g, gathered, part, k)
			same("AllGatherV", err, gathered, whole)
			clear(gathered)
			if err = coll.GatherV(within(t), g, root, gathered, part, k); me == root {
				same("GatherV", err, gathered, whole)
			}
			for _, op := range []coll.Op[affine]{plus, compose} {
				err = coll.ReduceScatterV(within(t), g, part, src[me], k, op)
				same("ReduceScatterV", err, part, folded(op, src)[at[me]:at[me+1]])
			}
			in := make([]int, n)
			var want []affine
			for i := range n {
				in[i] = matrix[i][me]
				for j := range in[i] {
					want = append(want, affine{uint32(i<<8 | me), uint32(j)})
				}
			}
			var out []affine
			for i, m := range matrix[me] {
				for j := range m {
					out = append(out, affine{uint32(me<<8 | i), uint32(j)})
				}
			}
			exchanged := make([]affine, len(want))
			err = coll.AllToAllV(within(t), g, exchanged, in, out, matrix[me])
			same("AllToAllV", err, exchanged, want)
			return err
		})
	})
	closeAll(t, all)
}

// Built-in operations are those of Go.
func TestBuiltInOperations(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(r, "length")
		x := rapid.SliceOfN(rapid.Int16(), n, n).Draw(r, "left")
		y := rapid.SliceOfN(rapid.Int16(), n, n).Draw(r, "right")
		for name, c := range map[string]struct {
			op coll.Op[int16]
			f  func(x, y int16) int16
		}{
			"sum":  {coll.Sum[int16](), func(x, y int16) int16 { return x + y }},
			"prod": {coll.Prod[int16](), func(x, y int16) int16 { return x * y }},
			"min":  {coll.Min[int16](), func(x, y int16) int16 { return min(x, y) }},
			"max":  {coll.Max[int16](), func(x, y int16) int16 { return max(x, y) }},
			"and":  {coll.And[int16](), func(x, y int16) int16 { return x & y }},
			"or":   {coll.Or[int16](), func(x, y int16) int16 { return x | y }},
			"xor":  {coll.Xor[int16](), func(x, y int16) int16 { return x ^ y }},
		} {
			dst, left, right := make([]int16, n), slices.Clone(x), slices.Clone(y)
			c.op.Combine(dst, x, y)
			c.op.Combine(left, left, y)
			c.op.Combine(right, x, right)
			for i := range n {
				if want := c.f(x[i], y[i]); dst[i] != want || left[i] != want || right[i] != want {
					t.Fatalf("%s of %d and %d: %d, %d, %d, expected %d", name, x[i], y[i], dst[i], left[i], right[i], want)
				}
			}
		}
	})
}
