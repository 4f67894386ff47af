package coll_test

import (
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
