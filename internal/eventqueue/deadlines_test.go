package eventqueue

import (
	"math/rand/v2"
	"testing"
)

func TestDeadlinesAreThoseOfAPlainList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d Deadlines[int64]
	const n = 50
	if first := d.Add(n); first != 0 {
		t.Fatalf("first timer %d", first)
	}
	model := map[int]int64{}
	for range 20000 {
		timer := r.IntN(n)
		if r.IntN(3) == 0 {
			d.Clear(timer)
			delete(model, timer)
		} else {
			at := r.Int64N(40)
			d.Set(timer, at)
			model[timer] = at
		}
		best, found := -1, false
		for k, at := range model {
			if !found || at < model[best] || at == model[best] && k < best {
				best, found = k, true
			}
		}
		timer, at, ok := d.Next()
		if ok != found || ok && (timer != best || at != model[best]) {
			t.Fatalf("timer %d at %d (%v), expected %d at %d (%v)", timer, at, ok, best, model[best], found)
		}
	}
	if first := d.Add(3); first != n {
		t.Errorf("first of three more timers %d, expected %d", first, n)
	}
}

func BenchmarkDeadlines(b *testing.B) {
	var d Deadlines[int64]
	const n = 1000
	d.Add(n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		d.Set(i, r.Int64N(1e6))
	}
	b.ReportAllocs()
	for range b.N {
		i, at, _ := d.Next()
		d.Set(i, at+r.Int64N(1e6))
	}
}

// The order does not depend on how far away deadlines are.
func TestDeadlinesKeepTheirOrderAtEachDistance(t *testing.T) {
	for _, distance := range []int64{1, 100, 1e5, 1e9, 1e15} {
		r := rand.New(rand.NewPCG(3, uint64(distance)))
		var d Deadlines[int64]
		const n = 40
		d.Add(n)
		var model [n]int64
		for i := range model {
			model[i] = -1
		}
		now := int64(0)
		set := func(timer int) {
			if r.IntN(8) == 0 {
				d.Clear(timer)
				model[timer] = -1
				return
			}
			away := r.Int64N(distance)
			if r.IntN(50) == 0 {
				away *= 1000
			}
			model[timer] = now + away
			d.Set(timer, now+away)
		}
		for range 10000 {
			best := -1
			for k, at := range model {
				if at >= 0 && (best < 0 || at < model[best]) {
					best = k
				}
			}
			timer, at, ok := d.Next()
			if ok != (best >= 0) || ok && (timer != best || at != model[best]) {
				t.Fatalf("distance %d: timer %d at %d (%v), expected %d", distance, timer, at, ok, best)
			}
			if ok && r.IntN(4) != 0 {
				now = at
				set(timer)
			}
			set(r.IntN(n))
		}
	}
}
