package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"softrdma/coll"
	"softrdma/msg"
)

// canMap says whether members on this system read each other's memory.
const canMap = runtime.GOOS == "linux"

// warmLength is the number of elements of warm.
const warmLength = 10_000

// warm makes the members of a group map each other's memory.
func warm(t testing.TB, all []*coll.Group) {
	t.Helper()
	together(t, all, func(g *coll.Group) error {
		x := make([]int64, warmLength)
		return coll.AllReduce(within(t), g, x, x, coll.Sum[int64]())
	})
	for _, g := range all {
		if g.IsMapped() != canMap {
			t.Fatalf("rank %d reads the others' memory: %v, expected %v", g.Rank(), g.IsMapped(), canMap)
		}
	}
}

// reduces checks that an all-reduce of n elements adds those of all members.
func reduces(t testing.TB, all []*coll.Group, n int) {
	t.Helper()
	together(t, all, func(g *coll.Group) error {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(i * (g.Rank() + 1))
		}
		if err := coll.AllReduce(within(t), g, x, x, coll.Sum[int32]()); err != nil {
			return err
		}
		return isSum(x, g.Size())
	})
}

// isSum returns an error unless x is the sum of what members have in reduces.
func isSum(x []int32, members int) error {
	for i := range x {
		if want := int32(i * (members * (members + 1) / 2)); x[i] != want {
			return fmt.Errorf("element %d is %d, expected %d", i, x[i], want)
		}
	}
	return nil
}

// Blocks of many segments and of several rounds are combined, in memory of Alloc and of Go, and where
// the source is the destination.
func TestLongAllReduceIsRight(t *testing.T) {
	const n, length = 3, 4_500_001
	if 4*length < 2*coll.MappedRound {
		t.Fatal("expected several rounds")
	}
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	for _, a := range []coll.Algorithm{coll.Pairwise, coll.Mapped} {
		for _, alloc := range []func(g *coll.Group, n int) ([]int32, error){
			coll.Alloc[int32],
			func(_ *coll.Group, n int) ([]int32, error) { return make([]int32, n), nil },
		} {
			together(t, all, func(g *coll.Group) error {
				if err := g.SetAlgorithm(coll.OpAllReduce, a); err != nil {
					return err
				}
				src, err := alloc(g, length)
				if err != nil {
					return err
				}
				dst, err := alloc(g, length)
				if err != nil {
					return err
				}
				for i := range src {
					src[i] = int32(i * (g.Rank() + 1))
				}
				for _, to := range [][]int32{dst, src} {
					if err := coll.AllReduce(within(t), g, to, src, coll.Sum[int32]()); err != nil {
						return err
					}
					if err := isSum(to, n); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if all[0].IsMapped() != canMap {
		t.Errorf("rank 0 reads the others' memory: %v", all[0].IsMapped())
	}
	closeAll(t, all)
}

// A reduction of one type: the results of members have the bits of a combination in the order of the
// ranks.
// They have at most so many bytes.
func combines[T any](t *testing.T, all []*coll.Group, most int, ops map[string]coll.Op[T]) {
	for name, op := range ops {
		length := rand.IntN(most/max(1, int(reflect.TypeFor[T]().Size())) + 1)
		src := make([][]T, len(all))
		for r := range src {
			src[r] = make([]T, length)
			for i := range src[r] {
				if reflect.TypeFor[T]().Size() == 0 {
					break
				}
				random(reflect.ValueOf(&src[r][i]).Elem())
			}
		}
		want := slices.Clone(src[0])
		for _, x := range src[1:] {
			op.Combine(want, want, x)
		}
		together(t, all, func(g *coll.Group) error {
			dst := make([]T, length)
			if err := coll.AllReduce(within(t), g, dst, src[g.Rank()], op); err != nil {
				return err
			}
			if !slices.Equal(memory(dst), memory(want)) {
				return fmt.Errorf("%s of %d %v has another result", name, length, reflect.TypeFor[T]())
			}
			return nil
		})
	}
}

// random sets a number to a random one.
func random(x reflect.Value) {
	switch {
	case x.CanInt():
		x.SetInt(rand.Int64())
	case x.CanUint():
		x.SetUint(rand.Uint64())
	case x.CanFloat():
		x.SetFloat(rand.NormFloat64())
	default:
		x.SetComplex(complex(rand.NormFloat64(), rand.NormFloat64()))
	}
}

// memory returns the bytes of elements.
func memory[T any](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

func numbers[T coll.Number](t *testing.T, all []*coll.Group, most int) {
	combines(t, all, most, map[string]coll.Op[T]{"Sum": coll.Sum[T](), "Prod": coll.Prod[T]()})
}

func reals[T coll.Real](t *testing.T, all []*coll.Group, most int) {
	numbers[T](t, all, most)
	combines(t, all, most, map[string]coll.Op[T]{"Min": coll.Min[T](), "Max": coll.Max[T]()})
}

func integers[T coll.Integer](t *testing.T, all []*coll.Group, most int) {
	reals[T](t, all, most)
	combines(t, all, most, map[string]coll.Op[T]{"And": coll.And[T](), "Or": coll.Or[T](), "Xor": coll.Xor[T]()})
}

// everything checks reductions of all types by all operators.
func everything(t *testing.T, all []*coll.Group, most int) {
	integers[int8](t, all, most)
	integers[int16](t, all, most)
	integers[int32](t, all, most)
	integers[int64](t, all, most)
	integers[int](t, all, most)
	integers[uint8](t, all, most)
	integers[uint16](t, all, most)
	integers[uint32](t, all, most)
	integers[uint64](t, all, most)
	integers[uint](t, all, most)
	integers[uintptr](t, all, most)
	reals[float32](t, all, most)
	reals[float64](t, all, most)
	numbers[complex64](t, all, most)
	numbers[complex128](t, all, most)
	combines(t, all, most, map[string]coll.Op[struct{}]{"nothing": {Combine: func(_, _, _ []struct{}) {}}})
}

func TestMappedAllReduceOfAllTypesAndOperators(t *testing.T) {
	const n = 4
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	warm(t, all)
	everything(t, all, 300_000)
	type pair struct {
		A uint8
		B uint64
	}
	together(t, all, func(g *coll.Group) error { // elements with gaps
		x := slices.Repeat([]pair{{1, uint64(g.Rank())}}, 3001)
		err := coll.AllReduce(within(t), g, x, x, coll.Each(func(x, y pair) pair { return pair{x.A + y.A, x.B + y.B} }))
		if err == nil && !slices.Equal(x, slices.Repeat([]pair{{n, n * (n - 1) / 2}}, 3001)) {
			err = fmt.Errorf("pairs are %v", x[0])
		}
		return err
	})
	closeAll(t, all)
}

// If one member has no view of another's memory, or no memory to offer, all members take another
// algorithm, also when that happens later.
func TestAllReduceWithoutViewsIsRight(t *testing.T) {
	const n = 3
	w := openWorkers(t, n+1, msg.Config{})
	closed := w.list[n]
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, later := range []bool{false, true} {
		all := w.groups(t, n)
		if later {
			warm(t, all)
		}
		all[1].ShareWith(closed)
		for _, length := range []int{100_000, 10, 200_000} {
			reduces(t, all, length)
		}
		for _, g := range all {
			if g.IsMapped() {
				t.Errorf("later %v: rank %d reads the others' memory", later, g.Rank())
			}
		}
		together(t, all, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
		closeAll(t, all)
	}
}

// Members wait for one that comes late, however long it takes.
func TestMappedCallWaitsForASlowMember(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	warm(t, all)
	together(t, all, func(g *coll.Group) error {
		if g.Rank() == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		x := []int{g.Rank()}
		err := coll.AllReduce(within(t), g, x, x, coll.Sum[int]())
		if err == nil && x[0] != 0+1+2 {
			err = fmt.Errorf("the sum is %d", x[0])
		}
		return err
	})
	closeAll(t, all)
}

// A group that Split has made may be closed while others call it. They learn who did.
func TestMemberThatClosesAMappedGroupIsNamed(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	all := make([]*coll.Group, n)
	together(t, first, func(g *coll.Group) (err error) {
		all[g.Rank()], err = g.Split(within(t), 0, 0)
		return err
	})
	warm(t, all)
	if !canMap {
		return
	}
	errs := each(all, func(g *coll.Group) error {
		if g.Rank() == 1 {
			return g.Close(within(t))
		}
		x := make([]int64, 10_000)
		return coll.AllReduce(within(t), g, x, x, coll.Sum[int64]())
	})
	if errs[1] != nil {
		t.Error(errs[1])
	}
	failed(t, []error{errs[0], errs[2]}, 1, coll.ErrLeft)
	closeAll(t, first)
}

// Boards need no worker. A member whose worker has closed ends the call all the same, instead of going on
// without being able to say anything to the others.
func TestMappedCallOnAClosedWorkerIsAFailure(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	warm(t, all)
	errs := each(all, func(g *coll.Group) error {
		if g.Rank() == 1 {
			if err := w.list[1].Close(); err != nil {
				return err
			}
		}
		return coll.Barrier(within(t), g)
	})
	failed(t, errs, 1, coll.ErrGone)
	for _, g := range all {
		_ = g.Close(within(t)) // of failed groups
	}
}

// A group that is closed during a call ends the call, whatever the call does then.
func TestMappedGroupThatIsClosedDuringACall(t *testing.T) {
	const n = 2
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	all := make([]*coll.Group, n)
	together(t, first, func(g *coll.Group) (err error) {
		all[g.Rank()], err = g.Split(within(t), 0, 0)
		return err
	})
	warm(t, all)
	op := coll.Op[int64]{Combine: func(dst, left, right []int64) {
		for _, g := range all {
			_ = g.Close(context.Background()) // the second one is an error
		}
		coll.Sum[int64]().Combine(dst, left, right)
	}}
	for r, err := range each(all, func(g *coll.Group) error {
		x := make([]int64, 10_000)
		return coll.AllReduce(within(t), g, x, x, op)
	}) {
		if err != nil && !errors.Is(err, coll.ErrClosed) && !errors.Is(err, coll.ErrMember) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	closeAll(t, first)
}
