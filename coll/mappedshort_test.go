package coll_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"softrdma/coll"
	"softrdma/msg"
)

// Short all-reduces, which take one step, alternate with others and with barriers. Members are slow at random.
// One that is slow reads its own step's elements, however far the others are.
func TestShortAllReducesOfSlowMembers(t *testing.T) {
	const most = 8
	calls := 200
	if testing.Short() {
		calls = 60
	}
	w := openWorkers(t, most, msg.Config{})
	for n := 2; n <= most; n++ {
		all := w.groups(t, n)
		warm(t, all)
		seed := rand.Uint64()
		together(t, all, func(g *coll.Group) error {
			same := rand.New(rand.NewPCG(seed, 0)) // at all members
			op := coll.Op[uint32]{Combine: func(dst, left, right []uint32) {
				if rand.IntN(10*n) == 0 {
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				}
				coll.Sum[uint32]().Combine(dst, left, right)
			}}
			for i := range calls {
				x := make([]uint32, same.IntN(2*coll.MaxShort/n/4))
				if same.IntN(4) > 0 {
					x = x[:len(x)/2]
				}
				for k := range x {
					x[k] = uint32(i*1000 + k + g.Rank()<<20)
				}
				want := slices.Clone(x)
				for k := range want {
					want[k] = uint32(n*(i*1000+k) + n*(n-1)/2<<20)
				}
				if err := coll.AllReduce(within(t), g, x, x, op); err != nil {
					return err
				}
				if !slices.Equal(x, want) {
					return fmt.Errorf("call %d, %d elements: %v, expected %v", i, len(x), x, want)
				}
				if same.IntN(8) == 0 {
					if err := coll.Barrier(within(t), g); err != nil {
						return err
					}
				}
			}
			return nil
		})
		closeAll(t, all)
	}
}

// Short all-reduces of all types and operators have the bits of a combination in the order of the ranks.
func TestShortAllReduceOfAllTypesAndOperators(t *testing.T) {
	const most = 8
	w := openWorkers(t, most, msg.Config{})
	for n := 1; n <= most; n++ {
		if testing.Short() && n != 2 && n != 5 {
			continue
		}
		all := w.groups(t, n)
		if n > 1 {
			warm(t, all)
		}
		everything(t, all, 2*coll.MaxShort/n)
		closeAll(t, all)
	}
}

// Members whose elements are on boards, and others that offer longer ones, name each other.
func TestShortAllReduceWithLongerElementsOfAMember(t *testing.T) {
	const n, limit = 4, coll.MaxShort / 4
	w := openWorkers(t, n, msg.Config{})
	for _, lengths := range [][n]int{
		{limit, limit, limit, limit + 1},
		{limit + 1, limit + 1, limit + 1, limit},
		{0, limit, limit, limit},
		{limit, limit, limit - 1, limit},
	} {
		all := w.groups(t, n)
		warm(t, all)
		together(t, all, func(g *coll.Group) error { // what boards have then must not count
			x := make([]byte, limit)
			return coll.AllReduce(within(t), g, x, x, coll.Sum[byte]())
		})
		failed(t, each(all, func(g *coll.Group) error {
			x := make([]byte, lengths[g.Rank()])
			return coll.AllReduce(within(t), g, x, x, coll.Sum[byte]())
		}), -1, coll.ErrLength)
		closeAll(t, all)
	}
}
