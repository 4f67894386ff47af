package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"softrdma/coll"
	"softrdma/msg"
	"softrdma/verbs"
)

// workers has the workers of members in this process, each on a device of its own. Tests use them
// one after the other.
type workers struct {
	devices []*verbs.Device
	list    []*msg.Worker
	id      int // of the next groups
}

func openWorkers(t testing.TB, n int, c msg.Config) *workers { return openNamed(t, "", n, c) }

// network distinguishes the addresses of this process from those of other tests that run at the same
// time.
var network = fmt.Sprintf("127.%d.%d.", 192+rand.IntN(32), rand.IntN(256))

// loopback returns an address of the loopback interface.
func loopback(i int) string { return network + strconv.Itoa(1+i) }

// openNamed is openWorkers for devices whose names begin with the prefix of a protocol.
func openNamed(t testing.TB, prefix string, n int, c msg.Config) *workers {
	t.Helper()
	w := &workers{}
	for i := range n {
		dev, err := verbs.Open(prefix+loopback(i), verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := msg.NewWorker(dev, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := x.Close(); err != nil && !errors.Is(err, msg.ErrClosed) {
				t.Error(err)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		w.devices, w.list = append(w.devices, dev), append(w.list, x)
	}
	return w
}

// groups makes the group of the first n workers, for each member.
func (w *workers) groups(t testing.TB, n int) []*coll.Group {
	t.Helper()
	var addresses [][]byte
	for _, x := range w.list[:n] {
		addresses = append(addresses, x.Address())
	}
	var all []*coll.Group
	w.id = (w.id + 1) % (coll.MaxID + 1)
	for r := range n {
		g, err := coll.New(within(t), w.list[r], coll.Config{Rank: r, Addresses: addresses, ID: w.id, Device: w.devices[r]})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	return all
}

// closeAll closes the groups of all members.
func closeAll(t testing.TB, all []*coll.Group) {
	t.Helper()
	for r, err := range each(all, func(g *coll.Group) error { return g.Close(within(t)) }) {
		if err != nil && !errors.Is(err, coll.ErrClosed) {
			t.Errorf("rank %d: close: %v", r, err)
		}
	}
}

// each calls f for all members at the same time, and returns the errors by rank.
func each(all []*coll.Group, f func(g *coll.Group) error) []error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, g := range all {
		done.Go(func() { errs[i] = f(g) })
	}
	done.Wait()
	return errs
}

// together is each for calls that must succeed.
func together(t testing.TB, all []*coll.Group, f func(g *coll.Group) error) {
	t.Helper()
	for r, err := range each(all, f) {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, len(all), err)
		}
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
