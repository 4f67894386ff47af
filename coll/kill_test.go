package coll_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"softrdma/coll"
	"softrdma/internal/testenv"
	"softrdma/msg"
	"softrdma/verbs"
)

// memberRank is the environment variable with the rank and the device of a process that is a member.
const memberRank = "SOFTRDMA_TEST_COLL_RANK"

func TestMain(m *testing.M) {
	testenv.Main(m, map[string]func(string) error{memberRank: beMember, memberOfWorld: joinWorld})
}

// peerTimeout is that of the processes.
const peerTimeout = 3 * time.Second

// beMember prints the address of a worker, reads those of all, and calls operations until one fails.
// It prints the rank that failed and the operation.
func beMember(place string) error {
	var c coll.Config
	var device string
	var mode verbs.SameHost
	if _, err := fmt.Sscan(place, &c.Rank, &device, &mode); err != nil {
		return err
	}
	var err error
	if c.Device, err = verbs.Open(device, verbs.Config{SameHost: mode}); err != nil {
		return err
	}
	w, err := msg.NewWorker(c.Device, msg.Config{PeerTimeout: peerTimeout})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(w.Address()); err != nil {
		return err
	}
	if err := json.NewDecoder(os.Stdin).Decode(&c.Addresses); err != nil {
		return err
	}
	ctx := context.Background()
	g, err := coll.New(ctx, w, c)
	if err != nil {
		return err
	}
	x := make([]float64, 100_000)
	for i := range x {
		x[i] = float64(i)
	}
	err = coll.AllReduce(ctx, g, x, x, coll.Sum[float64]())
	for i := range x {
		if err == nil && x[i] != float64(i*g.Size()) {
			return fmt.Errorf("element %d of the sum is %v", i, x[i])
		}
	}
	if mode == verbs.SameHostRequire {
		fmt.Println(g.IsMapped(), err)
		return errors.Join(g.Close(ctx), w.Close())
	}
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		switch i % 5 {
		case 0:
			err = coll.AllReduce(ctx, g, x, x, coll.Sum[float64]())
		case 1:
			err = coll.Broadcast(ctx, g, i%g.Size(), x)
		case 2:
			err = coll.AllToAll(ctx, g, x, append([]float64(nil), x...))
		case 3:
			err = coll.Barrier(ctx, g)
		case 4:
			err = coll.Reduce(ctx, g, i%g.Size(), x[:10], x[:10], coll.Max[float64]())
		}
	}
	again := coll.Barrier(ctx, g)
	e := (*coll.MemberError)(nil)
	if !errors.As(err, &e) || !errors.Is(again, coll.ErrMember) {
		return fmt.Errorf("%w, then %w", err, again)
	}
	if err := out.Encode(ending{e.Rank, errors.Is(err, coll.ErrGone)}); err != nil {
		return err
	}
	if err := g.Close(ctx); err != nil {
		return err
	}
	return w.Close()
}

type ending struct {
	Rank int
	Gone bool
}

// startMembers starts processes that are members, with a way to others on their host.
func startMembers(t *testing.T, n int, mode verbs.SameHost) (members []*testenv.Process) {
	t.Helper()
	addresses := make([][]byte, n)
	for i := range n {
		p := testenv.Start(t, memberRank, fmt.Sprintf("%d %s %s", i, loopback(100+i), mode))
		members = append(members, p)
		if err := json.Unmarshal([]byte(p.Line()), &addresses[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range members {
		if err := json.NewEncoder(p.In).Encode(addresses); err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// Processes on one host read each other's memory.
func TestProcessesMapEachOthersMemory(t *testing.T) {
	if !canMap {
		t.Skip("SKIPPED: needs Linux")
	}
	for i, p := range startMembers(t, 4, verbs.SameHostRequire) {
		if found := p.Line(); found != "true <nil>\n" {
			t.Errorf("rank %d reads the others' memory: %q", i, found)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// A process that is killed at any point ends the calls of all others, with an error that names it.
func TestKilledMemberEndsTheCallsOfAll(t *testing.T) {
	const n = 4
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		members := startMembers(t, n, verbs.SameHostAuto)
		for _, p := range members {
			p.Line() // running
		}
		victim := rand.IntN(n)
		time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond))))
		members[victim].Kill()
		for i, p := range members {
			if i == victim {
				continue
			}
			var e ending
			if err := json.Unmarshal([]byte(p.Line()), &e); err != nil || e != (ending{victim, true}) {
				t.Errorf("rank %d: %+v, %v, expected that rank %d is gone", i, e, err, victim)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	}
}
