package eventqueue

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Values come out in the order of their times, values with equal times in the
// order of Push, and none before its time.
func TestQueueOrder(t *testing.T) {
	type item struct {
		at time.Duration
		n  int
	}
	random := rand.New(rand.NewPCG(7, 0))
	var q Queue[item]
	var left, got []item
	now := time.Duration(0)
	for n := range 3000 {
		x := item{now + time.Duration(random.IntN(20)), n}
		q.Push(x.at, x)
		left = append(left, x)
		if n%3 != 0 {
			continue
		}
		now += time.Duration(random.IntN(4))
		for {
			next, some := q.Next()
			x, at, ok := q.Pop(now)
			if some != (len(left) > len(got)) || ok != (some && next <= now) || ok && (at != next || at != x.at) {
				t.Fatalf("at %v: popped %+v of %v, %v; Next returned %v, %v", now, x, at, ok, next, some)
			}
			if !ok {
				break
			}
			got = append(got, x)
		}
	}
	slices.SortStableFunc(left, func(x, y item) int { return int(x.at - y.at) })
	if len(got) < 1000 || !slices.Equal(got, left[:len(got)]) {
		t.Errorf("%d values, not in order", len(got))
	}
}

func TestQueueReusesMemory(t *testing.T) {
	var q Queue[*int]
	x := new(int)
	n := testing.AllocsPerRun(100, func() {
		for i := range 50 {
			q.Push(time.Duration(i%7), x)
		}
		for range 50 {
			q.Pop(10)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	for _, e := range q.list[:cap(q.list)] {
		if e.value != nil {
			t.Fatal("a popped value is still referenced")
		}
	}
}
