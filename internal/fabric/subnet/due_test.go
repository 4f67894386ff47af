package subnet

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestDueHeapHasTheEarliestFirst(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	var h dueHeap
	members := make([]*member, 50)
	for i := range members {
		members[i] = &member{place: -1}
	}
	for range 20_000 {
		m := members[random.IntN(len(members))]
		switch {
		case m.place < 0:
			m.deadline = time.Duration(random.IntN(100))
			h.push(m)
		case random.IntN(3) == 0:
			h.remove(m)
		default:
			m.deadline = time.Duration(random.IntN(100))
			h.fix(m)
		}
		for i, m := range h {
			if m.place != i {
				t.Fatalf("member at %d has place %d", i, m.place)
			}
		}
		if len(h) > 0 {
			first := slices.MinFunc(h, func(a, b *member) int { return int(a.deadline - b.deadline) })
			if h[0].deadline != first.deadline {
				t.Fatalf("first is due at %v, expected %v", h[0].deadline, first.deadline)
			}
		}
	}
	for _, m := range members {
		if m.place >= 0 && !slices.Contains(h, m) {
			t.Error("a member has a place that is not its own")
		}
	}
}

func TestFlightsArriveInTheirOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 0))
	var q flights
	pushed, popped := time.Duration(0), time.Duration(0)
	for range 20_000 {
		if random.IntN(2) == 0 {
			q.push(flight{at: pushed, frame: make([]byte, 1)})
			pushed++
			continue
		}
		if popped == pushed {
			if q.next() != Never {
				t.Fatal("an empty queue has a next flight")
			}
			continue
		}
		if q.next() != popped {
			t.Fatalf("next arrives at %v, expected %v", q.next(), popped)
		}
		if f := q.pop(); f.at != popped || f.frame == nil {
			t.Fatalf("popped %v, expected %v", f.at, popped)
		}
		popped++
	}
	for _, f := range q.list[:q.head] {
		if f.frame != nil {
			t.Fatal("the queue keeps a frame that has arrived")
		}
	}
	if most := int(pushed - popped); cap(q.list) > 4*(most+1000) {
		t.Errorf("room for %d flights", cap(q.list))
	}
}
