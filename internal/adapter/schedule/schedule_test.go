package schedule

import (
	"slices"
	"testing"
	"time"
)

// A named task does nothing; tests know it by its name.
type named string

func (named) Next(time.Duration) (int, bool) { return 0, false }
func (named) Deadline() time.Duration        { return Never }
func (named) Expire(time.Duration)           {}

func entries(group *Group, names ...string) map[string]*Entry {
	all := map[string]*Entry{}
	for _, n := range names {
		e := &Entry{}
		e.Init(named(n))
		e.SetGroup(group)
		all[n] = e
	}
	return all
}

// Tasks of a group come together, and each has its turn before any has a second one.
func TestReadyTasksTakeTurnsByGroup(t *testing.T) {
	var q Queue
	f, g := &Group{}, &Group{}
	all := entries(nil, "n1", "n2")
	for _, group := range []map[string]*Entry{entries(f, "f1", "f2", "f3"), entries(g, "g1", "g2")} {
		for n, e := range group {
			all[n] = e
		}
	}
	push := func(names ...string) {
		for _, n := range names {
			q.Push(all[n])
		}
	}
	push("f1", "g1", "n1", "f2", "g2", "n2", "f2")
	var got []string
	for e := q.Pop(); e != nil; e = q.Pop() {
		n := string(e.Task().(named))
		got = append(got, n)
		switch len(got) {
		case 1, 3:
			push(n) // has more
		case 2:
			push("f3") // comes while others of its group have their turn
		case 4:
			q.Remove(all["n2"])
		}
	}
	if want := []string{"f1", "f2", "g1", "g2", "n1", "f1", "f3", "g1"}; !slices.Equal(got, want) {
		t.Errorf("order %v, expected %v", got, want)
	}
	if q.Ready() != 0 || q.turn != nil || q.first != nil || f.first != nil || all["f1"].next != nil {
		t.Errorf("%d tasks are left: %+v", q.Ready(), q)
	}
}

// A waits is a task that waits for a deadline, and notes when it was asked to act.
type waits struct {
	named
	until time.Duration
	acted []time.Duration
	order *[]string // names of those that acted, if not nil
}

func (w *waits) Deadline() time.Duration { return w.until }
func (w *waits) Expire(now time.Duration) {
	w.acted = append(w.acted, now)
	if w.order != nil {
		*w.order = append(*w.order, string(w.named))
	}
	w.until = Never
}

// A due time that is earlier than the task's deadline is corrected, and no task is overdue.
func TestOverdueLooksAtDeadlines(t *testing.T) {
	var q Queue
	moved, due, none := &waits{until: 50}, &waits{until: 20}, &waits{until: Never}
	for _, w := range []*waits{moved, due, none} {
		e := new(Entry)
		e.Init(w)
		q.Set(e, 10)
	}
	if q.Overdue(15) {
		t.Error("overdue at 15, before the first deadline, which is at 20")
	}
	if d, n := q.NextDue(), q.Timers(); d != 20 || n != 2 {
		t.Errorf("%d tasks, the first due at %d, expected 2 and 20", n, d)
	}
	if !q.Overdue(20) || !q.Overdue(25) {
		t.Error("not overdue when the deadline of 20 has passed")
	}
	if q.Expire(25); !slices.Equal(due.acted, []time.Duration{25}) || moved.acted != nil || none.acted != nil {
		t.Errorf("acted at %v, %v and %v, expected 25 and never", due.acted, moved.acted, none.acted)
	}
	if q.Overdue(49) || q.NextDue() != 50 {
		t.Errorf("due at %d, expected 50", q.NextDue())
	}
}

func TestTasksExpireInOrder(t *testing.T) {
	var q Queue
	var order []string
	tasks := map[string]*waits{}
	all := map[string]*Entry{}
	for n, d := range map[string]time.Duration{"a": 30, "b": 10, "c": 20, "d": 40} {
		w := &waits{named: named(n), until: d, order: &order}
		all[n], tasks[n] = new(Entry), w
		all[n].Init(w)
		q.Set(all[n], d)
	}
	tasks["a"].until = 5
	q.Lower(all["a"], 5)
	q.Lower(all["b"], 15) // later than it is due: stays
	q.Set(all["c"], Never)
	q.Remove(all["d"])
	q.Set(all["d"], 1)
	if d, n := q.NextDue(), q.Timers(); d != 5 || n != 2 {
		t.Fatalf("%d tasks, the first due at %d, expected 2 and 5", n, d)
	}
	if q.Expire(4); len(order) != 0 {
		t.Fatalf("%v expired before their time", order)
	}
	if q.Expire(10); !slices.Equal(order, []string{"a", "b"}) {
		t.Fatalf("%v expired, expected a and b", order)
	}
	if d := q.NextDue(); d != Never {
		t.Errorf("due at %d with no task left", d)
	}
}

// The memory of a FIFO is used again, and keeps nothing alive.
func TestFIFOUsesItsMemoryAgain(t *testing.T) {
	var f FIFO[*int]
	for i := range 1000 {
		f.Push(&i)
		if i >= 5 {
			if got := *f.Pop(); got != i-5 {
				t.Fatalf("took %d, expected %d", got, i-5)
			}
		}
	}
	held := 0
	for _, p := range f.list[:cap(f.list)] {
		if p != nil {
			held++
		}
	}
	if cap(f.list) > 16 || held != f.Len() || f.Len() != 5 {
		t.Errorf("room for %d, %d pointers for %d entries", cap(f.list), held, f.Len())
	}
}
