package target

import (
	"slices"
	"testing"

	"softrdma/verbs"
)

// A batch of short responses has one completion, which ends all tasks whose responses stand before it.
func TestShortResponsesOfABatchHaveOneCompletion(t *testing.T) {
	move := func(n int) verbs.SendWR { return verbs.SendWR{WRID: uint64(workRespond | n), Op: verbs.OpWrite} }
	send := func(n int) verbs.SendWR {
		return verbs.SendWR{WRID: uint64(workRespond | n), Op: verbs.OpSend, Flags: verbs.Signaled}
	}
	fetch := verbs.SendWR{WRID: workFetch | 9, Op: verbs.OpRead, Flags: verbs.Signaled}
	q := &queue{}
	o := &q.out
	o.moves = []verbs.SendWR{move(1), move(2), move(3), send(3), fetch} // 3 has long data
	o.answers = []verbs.SendWR{send(1), send(2), send(0)}
	o.combine()
	all := slices.Concat(o.moves, o.answers)
	if n := o.note(all); n != 3 {
		t.Errorf("expected 3 signaled requests, found %d", n)
	}
	for i, want := range []bool{false, false, false, true, true, false, false, true} {
		if got := all[i].Flags&verbs.Signaled != 0; got != want {
			t.Errorf("request %d: signaled %v, expected %v", i, got, want)
		}
	}
	for i := range 4 {
		q.tasks = append(q.tasks, &task{number: i})
	}
	for _, step := range []struct {
		completed int
		ends      []int
	}{{3, []int{3}}, {0, []int{1, 2, 0}}} {
		q.responded(step.completed)
		if !slices.Equal(q.done, step.ends) {
			t.Errorf("after the completion of %d: expected tasks %v to end, found %v", step.completed, step.ends, q.done)
		}
	}
	if len(q.own) != 4 || len(o.sent) != 0 {
		t.Errorf("expected 4 free tasks and no response under way, found %d and %d", len(q.own), len(o.sent))
	}
}
