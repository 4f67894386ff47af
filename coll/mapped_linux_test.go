package coll_test

import (
	"errors"
	"testing"

	"softrdma/coll"
	"softrdma/internal/testenv"
	"softrdma/msg"
)

// A group that is closed leaves neither its memory nor views of the others' memory.
func TestMappedGroupLeavesNoMapping(t *testing.T) {
	const n = 3
	w := openWorkers(t, n, msg.Config{})
	first := w.groups(t, n)
	warm(t, first)
	before := testenv.Mappings(t)
	for range 2 {
		all := make([]*coll.Group, n)
		together(t, first, func(g *coll.Group) (err error) {
			all[g.Rank()], err = g.Split(within(t), 0, 0)
			return err
		})
		warm(t, all)
		if found := testenv.Mappings(t); found <= before {
			t.Errorf("%d mappings, expected more than %d", found, before)
		}
		together(t, all, func(g *coll.Group) error { return g.Close(within(t)) })
		if found := testenv.Mappings(t); found != before {
			t.Errorf("%d mappings, expected %d", found, before)
		}
	}
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
	cycle := func() int {
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
	}
	want := cycle() // calls without views keep their memory until the first group closes
	for range 3 {
		if found := cycle(); found != want {
			t.Errorf("%d mappings, expected %d", found, want)
		}
	}
	closeAll(t, first)
}
