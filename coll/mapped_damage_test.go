package coll_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"softrdma/coll"
	"softrdma/msg"
)

// split makes a group of all members of a first one.
func split(t testing.TB, first []*coll.Group) []*coll.Group {
	t.Helper()
	all := make([]*coll.Group, len(first))
	together(t, first, func(g *coll.Group) (err error) {
		all[g.Rank()], err = g.Split(within(t), 0, 0)
		return err
	})
	return all
}

// Close of the first group does not take the memory of a call that still runs, of whatever group and
// with whatever algorithm. The call ends, with an error unless it has all it needs, and then the memory is
// freed.
func TestFirstGroupThatIsClosedDuringACall(t *testing.T) {
	const n, length = 2, 20_000
	w := openWorkers(t, n, msg.Config{})
	for _, a := range []coll.Algorithm{coll.Mapped, coll.RecursiveDoubling, coll.Pairwise} {
		for _, own := range []bool{false, true} { // the call is one of the first group, which has failed
			first := w.groups(t, n)
			all := first
			if !own {
				all = split(t, first)
			}
			warm(t, all)
			var inside sync.WaitGroup
			inside.Add(n)
			closed := make(chan struct{})
			ended := make(chan []error)
			go func() {
				ended <- each(all, func(g *coll.Group) error {
					if err := g.SetAlgorithm(coll.OpAllReduce, a); err != nil {
						return err
					}
					var once sync.Once
					op := coll.Op[int64]{Combine: func(dst, left, right []int64) {
						once.Do(inside.Done)
						<-closed
						coll.Sum[int64]().Combine(dst, left, right)
					}}
					x := slices.Repeat([]int64{int64(g.Rank() + 1)}, length)
					err := coll.AllReduce(context.Background(), g, x, x, op)
					if err == nil && !slices.Equal(x, slices.Repeat([]int64{1 + 2}, length)) {
						t.Errorf("%v, rank %d: no error, and no sum", a, g.Rank())
					}
					return err
				})
			}()
			inside.Wait()
			if own {
				all[0].Abort(errors.New("for a test"))
				<-all[1].Failed()
			}
			closeAll(t, first)
			close(closed)
			for r, err := range <-ended {
				if err != nil && !errors.Is(err, coll.ErrClosed) && !errors.Is(err, coll.ErrMember) {
					t.Errorf("%v, rank %d: %v, expected %v", a, r, err, coll.ErrClosed)
				}
				if n := first[r].Pieces(); n != 0 {
					t.Errorf("%v, rank %d: %d pieces of memory are left", a, r, n)
				}
			}
		}
	}
}

// The numbers of calls on boards begin again at 0 after many calls.
func TestMappedCallsWhoseNumbersWrap(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	for _, g := range all {
		g.SetCalls(1<<coll.NumberBits - 5)
	}
	warm(t, all)
	for i := range 10 {
		reduces(t, all, 1000*i)
		together(t, all, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
	}
	closeAll(t, all)
}

// A key may say that the memory begins where words are not aligned, or is shorter than a board.
func TestMemoryThatIsNoBoardIsRefused(t *testing.T) {
	if !canMap {
		t.Skip("SKIPPED: needs Linux")
	}
	const n = 2
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	warm(t, all)
	key, length, err := all[1].Share(32 << 10)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ at, n uint64 }{
		"not aligned": {4, 24 << 10},
		"short":       {0, 1 << 10},
	} {
		const address = len("softrdma key") + 2 + 8 // behind the version, the flags and the worker
		b := append([]byte(nil), key...)
		if found := binary.BigEndian.Uint64(b[address+8:]); found != length {
			t.Fatalf("the key says %d bytes, expected %d", found, length)
		}
		binary.BigEndian.PutUint64(b[address:], binary.BigEndian.Uint64(b[address:])+x.at)
		binary.BigEndian.PutUint64(b[address+8:], x.n)
		if err := all[0].MapBoard(1, b); !errors.Is(err, msg.ErrNoView) {
			t.Errorf("%s: %v, expected %v", name, err, msg.ErrNoView)
		}
	}
	closeAll(t, all)
}

// A member may write anything to its board. The calls of the others end, with a result or an error that
// names a member.
func TestMembersWithDamagedBoards(t *testing.T) {
	const n, bad = 3, 1
	rounds := 40
	if testing.Short() {
		rounds = 20
	}
	w := openWorkers(t, n, msg.Config{Eager: 64 << 10}) // Close waits for longer ones that the member does not receive
	first := w.groups(t, n)
	results, failures := 0, 0
	var all []*coll.Group
	for round := 0; round < rounds || (results == 0 || failures == 0) && round < 10*rounds; round++ {
		if all == nil || all[0].Err() != nil || all[2].Err() != nil || !all[0].IsMapped() {
			for _, g := range all {
				_ = g.Close(within(t)) // what failed is not closed in good order
			}
			all = split(t, first)
			warm(t, all)
		}
		if !canMap {
			return
		}
		operation := []coll.Operation{coll.OpBroadcast, coll.OpReduce, coll.OpAllReduce, coll.OpReduceScatter, coll.OpAllGather, coll.OpAllToAll}[rand.IntN(6)]
		length := n * 1000
		if rand.IntN(2) == 0 {
			length = n * 10 // short
		}
		stray := uint64(0)
		if rand.IntN(8) == 0 {
			stray = rand.Uint64() >> rand.IntN(64)
		}
		all[bad].Pretend(operation, 8*length, bad, damage, stray)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // it need not do anything
		for r, err := range each(all, func(g *coll.Group) error {
			if g.Rank() == bad {
				return nil
			}
			x, y, op := make([]int64, length), make([]int64, n*length), coll.Sum[int64]()
			switch operation {
			case coll.OpBroadcast:
				return coll.Broadcast(ctx, g, bad, x)
			case coll.OpReduce:
				return coll.Reduce(ctx, g, bad, x, x, op)
			case coll.OpAllReduce:
				return coll.AllReduce(ctx, g, x, x, op)
			case coll.OpReduceScatter:
				return coll.ReduceScatter(ctx, g, y[:length/n], x, op)
			case coll.OpAllGather:
				return coll.AllGather(ctx, g, y, x)
			}
			return coll.AllToAll(ctx, g, y[:length], x)
		}) {
			switch {
			case r == bad:
			case err == nil:
				results++
			case errors.Is(err, coll.ErrMember):
				failures++
			default:
				t.Errorf("rank %d: %v, expected an error about a member", r, err)
			}
		}
		cancel()
		if all[0].Err() == nil && all[2].Err() == nil {
			all[bad].SetCalls(all[0].Calls())
		}
	}
	t.Logf("%d results, %d failures", results, failures)
	if results == 0 || failures == 0 {
		t.Errorf("%d results and %d failures, expected some of each", results, failures)
	}
	closeAll(t, first)
}

// damage changes some words of a board, or none.
func damage(b []byte) {
	for range rand.IntN(3) {
		at := rand.IntN(len(b) / 8)
		if rand.IntN(2) == 0 {
			at = rand.IntN(6) // most of what is not elements
		}
		word := b[8*at:][:8]
		x := binary.NativeEndian.Uint64(word)
		switch rand.IntN(4) {
		case 0:
			x ^= rand.Uint64() >> rand.IntN(64)
		case 1:
			x = 0
		case 2:
			x = math.MaxUint64 - rand.Uint64N(16)
		case 3:
			x += rand.Uint64N(1 << 20)
		}
		binary.NativeEndian.PutUint64(word, x)
	}
}
