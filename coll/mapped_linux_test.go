package coll_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/coll"
	"softrdma/internal/testenv"
	"softrdma/msg"
)

// leavesNoMapping calls cycle, which returns how many mappings there are at its end, until three calls in a
// row return the same. The rings between the workers are mapped in the background, and calls without views
// keep memory until the first group closes, so the first cycles may add mappings. There are fewer than 20 of
// these. A cycle that leaves a mapping each time never settles.
func leavesNoMapping(t *testing.T, cycle func() int) {
	t.Helper()
	var found []int
	for same := 0; same < 2; {
		found = append(found, cycle())
		if i := len(found) - 1; i > 0 && found[i] == found[i-1] {
			same++
		} else {
			same = 0
		}
		if len(found) > 40 {
			t.Fatalf("the number of mappings grows: %v", found)
		}
	}
}

// A group that is closed leaves neither its memory nor views of the others' memory.
func TestMappedGroupLeavesNoMapping(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	warm(t, first)
	leavesNoMapping(t, func() int {
		before := testenv.Mappings(t)
		all := split(t, first)
		warm(t, all)
		if found := testenv.Mappings(t); found <= before {
			t.Errorf("%d mappings, expected more than %d", found, before)
		}
		together(t, all, func(g *coll.Group) error { return g.Close(within(t)) })
		return testenv.Mappings(t)
	})
	closeAll(t, first)
}

// Neither do groups that fail, or whose members have no views of each other's memory.
func TestMappedGroupThatFailsLeavesNoMapping(t *testing.T) {
	const n = 3
	w := openWorkers(t, n+1, msg.Config{})
	closed := w.list[n]
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	first := w.groups(t, n)
	warm(t, first)
	leavesNoMapping(t, func() int {
		failing, unmapped := split(t, first), split(t, first)
		warm(t, failing)
		failing[1].Abort(errors.New("for a test"))
		unmapped[1].ShareWith(closed)
		reduces(t, unmapped, warmLength)
		unmapped[1].ShareWith(w.list[1])
		for i := range n {
			<-failing[i].Failed()
			if unmapped[i].IsMapped() {
				t.Errorf("rank %d reads the others' memory", i)
			}
			if err := errors.Join(failing[i].Close(within(t)), unmapped[i].Close(within(t))); err != nil {
				t.Error(err)
			}
		}
		return testenv.Mappings(t)
	})
	closeAll(t, first)
}

// withoutDescriptors calls f while the process may have no more descriptors.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	few := l
	few.Cur = 4
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
}

// Memory of Alloc that others cannot map, because there are too many descriptors, is copied as other memory
// is. The group continues with the algorithm Mapped.
func TestMemoryOfAllocThatCannotBeMappedIsCopied(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	all := w.groups(t, n)
	warm(t, all)
	var own []int32
	withoutDescriptors(t, func() {
		var err error
		if own, err = coll.Alloc[int32](all[1], 20_000); err != nil {
			t.Error(err)
		}
	})
	together(t, all, func(g *coll.Group) error {
		x := own
		if g.Rank() != 1 {
			x = make([]int32, len(own))
		}
		for i := range x {
			x[i] = int32(i * (g.Rank() + 1))
		}
		if err := coll.AllReduce(within(t), g, x, x, coll.Sum[int32]()); err != nil {
			return err
		}
		return isSum(x, n)
	})
	for _, g := range all {
		if !g.IsMapped() {
			t.Errorf("rank %d does not read the others' memory any more", g.Rank())
		}
	}
	closeAll(t, all)
}
