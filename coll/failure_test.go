package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"softrdma/coll"
	"softrdma/msg"
)

// failed reports each error that does not say that a rank has failed, with a cause.
func failed(t testing.TB, errs []error, rank int, cause error) {
	t.Helper()
	for r, err := range errs {
		e := (*coll.MemberError)(nil)
		if !errors.As(err, &e) || !errors.Is(err, coll.ErrMember) || !errors.Is(err, cause) || rank >= 0 && e.Rank != rank {
			t.Errorf("rank %d: %v, expected that rank %d has failed: %v", r, err, rank, cause)
		}
	}
}

// A member that calls something else, or with another length, is an error at all members.
func TestDifferentCallsFailAtAllMembers(t *testing.T) {
	const n = 4
	w := openWorkers(t, n, msg.Config{})
	for name, c := range map[string]struct {
		cause error
		call  func(ctx context.Context, g *coll.Group) error
	}{
		"operation": {coll.ErrCall, func(ctx context.Context, g *coll.Group) error {
			if g.Rank() == 2 {
				return coll.Barrier(ctx, g)
			}
			return coll.AllReduce(ctx, g, make([]int32, 1), make([]int32, 1), coll.Sum[int32]())
		}},
		"operation after one of the same length": {coll.ErrCall, func(ctx context.Context, g *coll.Group) error {
			if g.Rank() == 2 { // its offer of the last call must not count
				return coll.Barrier(ctx, g)
			}
			x := make([]int64, warmLength)
			return coll.AllReduce(ctx, g, x, x, coll.Sum[int64]())
		}},
		"operation that waits": {coll.ErrCall, func(ctx context.Context, g *coll.Group) error {
			if g.Rank() == 2 {
				return coll.Scatter(ctx, g, 0, make([]int32, 1), nil)
			}
			return coll.AllReduce(ctx, g, make([]int32, 10_000), make([]int32, 10_000), coll.Sum[int32]())
		}},
		"algorithm": {coll.ErrCall, func(ctx context.Context, g *coll.Group) error {
			size := 1 << 20
			if g.Rank() == 2 {
				size = 1
			}
			x := make([]int32, size)
			return coll.AllReduce(ctx, g, x, x, coll.Sum[int32]())
		}},
		"length": {coll.ErrLength, func(ctx context.Context, g *coll.Group) error {
			x := make([]int32, 10+g.Rank()/3)
			return coll.AllReduce(ctx, g, x, x, coll.Sum[int32]())
		}},
		"longer than an eager message": {coll.ErrLength, func(ctx context.Context, g *coll.Group) error {
			x := make([]int32, 100_000+g.Rank()/3)
			return coll.AllReduce(ctx, g, x, x, coll.Sum[int32]())
		}},
		"own slices": {coll.ErrLength, func(ctx context.Context, g *coll.Group) error {
			return coll.AllReduce(ctx, g, make([]int32, 10+g.Rank()/3), make([]int32, 10), coll.Sum[int32]())
		}},
		"root": {coll.ErrCall, func(ctx context.Context, g *coll.Group) error {
			return coll.Broadcast(ctx, g, n*(g.Rank()/3), make([]int32, 10))
		}},
	} {
		for _, mapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mapped %v", name, mapped), func(t *testing.T) {
				all := w.groups(t, n)
				if mapped {
					warm(t, all)
				}
				errs := each(all, func(g *coll.Group) error { return c.call(within(t), g) })
				// Some may have ended before, when they had all they needed.
				for r, err := range errs {
					if err == nil {
						<-all[r].Failed()
						errs[r] = coll.Barrier(within(t), all[r])
					}
				}
				cause := c.cause
				if mapped && canMap && name == "algorithm" { // it is the same one
					cause = coll.ErrLength
				}
				failed(t, errs, -1, cause)
				for _, g := range all {
					if err := g.Close(within(t)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

func TestAbortAndContextFailAtAllMembers(t *testing.T) {
	const n = 5
	w := openWorkers(t, n, msg.Config{})
	for name, cause := range map[string]error{"abort": coll.ErrAborted, "context": coll.ErrContext} {
		t.Run(name, func(t *testing.T) {
			all := w.groups(t, n)
			warm(t, all)
			errs := each(all, func(g *coll.Group) error {
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				if g.Rank() == 3 {
					if cause == coll.ErrAborted {
						g.Abort(errors.New("no data left"))
					}
					cancel()
				}
				return coll.Barrier(ctx, g)
			})
			failed(t, errs, 3, cause)
			if cause == coll.ErrAborted && !strings.Contains(errs[0].Error(), "no data left") {
				t.Errorf("%v, expected the text of Abort", errs[0])
			}
			for r, err := range each(all, func(g *coll.Group) error { return coll.Barrier(within(t), g) }) {
				failed(t, []error{err}, 3, cause)
				if all[r].Err() == nil {
					t.Errorf("rank %d has no error", r)
				}
			}
			closeAll(t, all)
		})
	}
}

// A member that closes its group without the others is named by those that wait for it.
func TestMemberThatEndsIsNamed(t *testing.T) {
	const n = 4
	w := openWorkers(t, n, msg.Config{PeerTimeout: 3 * time.Second})
	all := w.groups(t, n)
	together(t, all, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
	errs := each(all, func(g *coll.Group) error {
		if g.Rank() == 1 {
			return w.list[1].Close()
		}
		return coll.Barrier(within(t), g)
	})
	failed(t, append(errs[:1:1], errs[2:]...), 1, coll.ErrGone)
	for _, g := range all {
		_ = g.Close(within(t)) // of failed groups
	}
}

// A member that ends at any point of any operation is named by all others, whose calls end.
func TestMemberThatEndsAtAnyPointIsNamed(t *testing.T) {
	const n = 5
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		w := openWorkers(t, n, msg.Config{})
		all := w.groups(t, n)
		victim := rand.IntN(n)
		wait := time.Duration(rand.Int64N(int64(30 * time.Millisecond)))
		errs := each(all, func(g *coll.Group) error {
			if g.Rank() == victim {
				time.AfterFunc(wait, func() { _ = w.list[victim].Close() })
			}
			var err error
			x, y := make([]int64, 40_000), make([]int64, 40_000)
			for i := 0; err == nil; i++ {
				switch i % 6 {
				case 0:
					err = coll.AllReduce(within(t), g, y, x, coll.Sum[int64]())
				case 1:
					err = coll.Broadcast(within(t), g, i%n, x[:10])
				case 2:
					err = coll.AllToAll(within(t), g, y, x)
				case 3:
					err = coll.Reduce(within(t), g, i%n, y, x, coll.Max[int64]())
				case 4:
					err = coll.Scan(within(t), g, y[:100], x[:100], coll.Sum[int64]())
				case 5:
					var sub *coll.Group
					if sub, err = g.Split(within(t), g.Rank()%2, 0); err == nil {
						err = coll.Barrier(within(t), sub)
					}
					if err != nil { // of the smaller group, whose other members can be in the next call
						err = failure(t, g)
					}
				}
			}
			_ = g.Close(within(t)) // of a failed group
			return err
		})
		failed(t, append(errs[:victim:victim], errs[victim+1:]...), victim, coll.ErrGone)
		for i := range n {
			_ = w.list[i].Close() // the cleanup reports errors
			if err := w.devices[i].Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// failure waits until a group has failed, and returns why.
func failure(t *testing.T, g *coll.Group) error {
	ctx := within(t)
	select {
	case <-g.Failed():
		return g.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A failure of one group does not reach groups without the members that failed.
func TestFailureStaysInItsGroup(t *testing.T) {
	const n = 4
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	all := make([]*coll.Group, n)
	together(t, first, func(g *coll.Group) (err error) {
		all[g.Rank()], err = g.Split(within(t), g.Rank()%2, 0)
		return err
	})
	all[1].Abort(errors.New("for a test"))
	failed(t, each([]*coll.Group{all[1], all[3]}, func(g *coll.Group) error { return coll.Barrier(within(t), g) }), 0, coll.ErrAborted)
	together(t, []*coll.Group{all[0], all[2]}, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
	together(t, first, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
	closeAll(t, first)
}

func TestGroupsThatOverlapWorkAtTheSameTime(t *testing.T) {
	const n = 4
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	other := make([]*coll.Group, n)
	together(t, first, func(g *coll.Group) (err error) {
		other[g.Rank()], err = g.Split(within(t), 0, -g.Rank())
		return err
	})
	both := append(append([]*coll.Group(nil), first...), other...)
	together(t, both, func(g *coll.Group) error {
		for i := range 50 {
			x, y := []int{i, g.Rank()}, make([]int, 2)
			if err := coll.AllReduce(within(t), g, y, x, coll.Sum[int]()); err != nil {
				return err
			}
			if y[0] != n*i || y[1] != n*(n-1)/2 {
				t.Errorf("sums are %v", y)
			}
		}
		return nil
	})
	closeAll(t, first)
}

func TestCallDuringAnotherIsBusy(t *testing.T) {
	w := openWorkers(t, 2, msg.Config{})
	all := w.groups(t, 2)
	busy := make(chan error, 2)
	together(t, all, func(g *coll.Group) error {
		op := coll.Op[byte]{Combine: func(_, _, _ []byte) { busy <- coll.Barrier(within(t), g) }}
		return coll.AllReduce(within(t), g, []byte{0}, []byte{1}, op)
	})
	for range all {
		if err := <-busy; !errors.Is(err, coll.ErrBusy) {
			t.Errorf("%v, expected %v", err, coll.ErrBusy)
		}
	}
	closeAll(t, all)
}

func TestElementsWithPointersAreRefused(t *testing.T) {
	w := openWorkers(t, 2, msg.Config{})
	all := w.groups(t, 2)
	errs := each(all, func(g *coll.Group) error { return coll.Broadcast(within(t), g, 0, []string{"a"}) })
	failed(t, errs, -1, coll.ErrElement)
	closeAll(t, all)
}

func TestWrongConfigIsRefused(t *testing.T) {
	w := openWorkers(t, 1, msg.Config{})
	address := w.list[0].Address()
	for _, c := range []coll.Config{{}, {Rank: 1, Addresses: [][]byte{address}}, {ID: coll.MaxID + 1, Addresses: [][]byte{address}}, {Addresses: make([][]byte, coll.MaxMembers+1)}} {
		if _, err := coll.New(within(t), w.list[0], c); err == nil {
			t.Errorf("%d addresses, rank %d, ID %d: no error", len(c.Addresses), c.Rank, c.ID)
		}
	}
	if _, err := coll.New(within(t), w.list[0], coll.Config{Addresses: [][]byte{address, []byte("x")}, Connect: true}); !errors.Is(err, coll.ErrGone) || !errors.Is(err, msg.ErrAddress) {
		t.Errorf("%v, expected %v", err, msg.ErrAddress)
	}
	g := w.groups(t, 1)[0]
	if err := g.SetAlgorithm(coll.OpBarrier, coll.Ring); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	closeAll(t, []*coll.Group{g})
}

// The program's own messages on the same workers coexist with calls.
func TestProgramsOwnMessages(t *testing.T) {
	w := openWorkers(t, 2, msg.Config{})
	all := w.groups(t, 2)
	e, err := w.list[0].Connect(within(t), w.list[1].Address())
	if err != nil {
		t.Fatal(err)
	}
	own := w.list[1].Receive(msg.Buffers{make([]byte, 1)}, 0, 1<<63)
	together(t, all, func(g *coll.Group) error { return coll.Barrier(within(t), g) })
	e.Send(77, msg.Buffers{[]byte("x")}, nil)
	if i, err := own.Wait(within(t)); err != nil || i.Tag != 77 {
		t.Errorf("%+v, %v", i, err)
	}
	closeAll(t, all)
	if err := e.Close(within(t)); err != nil {
		t.Error(err)
	}
}

// An address that is none, of another version, or of a worker that has closed, is a failure of that
// member, which the others learn.
func TestWrongAddressFailsAtAllMembers(t *testing.T) {
	const n = 3
	w := openWorkers(t, n+1, msg.Config{})
	closed := w.list[n].Address()
	if err := w.list[n].Close(); err != nil {
		t.Fatal(err)
	}
	version := w.list[1].Address()
	version[len("softrdma msg")]++
	for name, c := range map[string]struct {
		address []byte
		cause   error
	}{
		"no address":      {[]byte("nonsense"), msg.ErrAddress},
		"another version": {version, msg.ErrVersion},
		"closed worker":   {closed, msg.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			w.id++
			var all []*coll.Group
			for r := range n {
				addresses := [][]byte{w.list[0].Address(), w.list[1].Address(), w.list[2].Address()}
				if r == 0 {
					addresses[1] = c.address
				}
				g, err := coll.New(within(t), w.list[r], coll.Config{Rank: r, Addresses: addresses, ID: w.id})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, g)
			}
			errs := each(all, func(g *coll.Group) error {
				x := []int{g.Rank()}
				err := coll.Broadcast(within(t), g, 0, x) // 0 sends to all
				if err == nil {                           // it had what it needed
					<-g.Failed()
					err = g.Err()
				}
				if e := g.Close(within(t)); e != nil {
					t.Errorf("rank %d: close: %v", g.Rank(), e)
				}
				return err
			})
			if !errors.Is(errs[0], c.cause) {
				t.Errorf("rank 0: %v, expected %v", errs[0], c.cause)
			}
			failed(t, []error{errs[0], errs[2]}, 1, coll.ErrGone)
			if e := (*coll.MemberError)(nil); !errors.As(errs[1], &e) { // it learns that 0 has left, or what that says
				t.Errorf("rank 1: %v, expected an error about a member", errs[1])
			}
		})
	}
}
