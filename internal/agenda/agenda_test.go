package agenda

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Things happen in the order of their times, and those of one moment in the
// order in which they were added; nothing before its time.
func TestAgendaTakesInOrder(t *testing.T) {
	type thing struct {
		at time.Duration
		n  int
	}
	random := rand.New(rand.NewPCG(7, 0))
	var a Agenda[thing]
	var left, got []thing
	now := time.Duration(0)
	for n := range 3000 {
		x := thing{now + time.Duration(random.IntN(20)), n}
		a.Add(x.at, x)
		left = append(left, x)
		if n%3 != 0 {
			continue
		}
		now += time.Duration(random.IntN(4))
		for {
			next, some := a.Next()
			x, at, ok := a.Take(now)
			if some != (len(left) > len(got)) || ok != (some && next <= now) || ok && (at != next || at != x.at) {
				t.Fatalf("at %v: took %+v of %v, %v; the next one is of %v, %v", now, x, at, ok, next, some)
			}
			if !ok {
				break
			}
			got = append(got, x)
		}
	}
	slices.SortStableFunc(left, func(x, y thing) int { return int(x.at - y.at) })
	if len(got) < 1000 || !slices.Equal(got, left[:len(got)]) {
		t.Errorf("%d things, not in order", len(got))
	}
}

func TestAgendaTakesItsMemoryAgain(t *testing.T) {
	var a Agenda[*int]
	x := new(int)
	n := testing.AllocsPerRun(100, func() {
		for i := range 50 {
			a.Add(time.Duration(i%7), x)
		}
		for range 50 {
			a.Take(10)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	for _, e := range a.list[:cap(a.list)] {
		if e.what != nil {
			t.Fatal("holds on to what was taken")
		}
	}
}
