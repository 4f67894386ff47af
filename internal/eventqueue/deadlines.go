package eventqueue

import "math/bits"

// Deadlines are timers with numbers from 0 on, each with at most one deadline. Timers that are due
// at the same time are due in the order of their numbers, whatever the order in which they were
// set. The zero value has no timers.
//
// T is a time in any unit.
type Deadlines[T ~int64] struct {
	heap  []deadline[T]
	place []int32 // of each timer in the heap, from 1 on; 0 without a deadline
}

type deadline[T ~int64] struct {
	at    T
	timer int32
}

// fan is the number of children in the heap. Four of them share a cache line.
const fan = 4

func (d deadline[T]) before(o deadline[T]) bool {
	return d.at < o.at || d.at == o.at && d.timer < o.timer
}

// less is 1 if a is before b and 0 otherwise. It has no branch, which a processor could not predict.
func less[T ~int64](a, b *deadline[T]) int {
	_, borrow := bits.Sub64(uint64(a.timer), uint64(b.timer), 0)
	_, borrow = bits.Sub64(uint64(a.at)^sign, uint64(b.at)^sign, borrow)
	return int(borrow)
}

const sign = 1 << 63

// Add makes n timers without deadlines and returns the number of the first one.
func (d *Deadlines[T]) Add(n int) (first int) {
	first = len(d.place)
	d.place = append(d.place, make([]int32, n)...)
	return first
}

// Next returns the timer that is due first, and when. It reports whether there is one.
func (d *Deadlines[T]) Next() (timer int, at T, ok bool) {
	if len(d.heap) == 0 {
		return 0, 0, false
	}
	return int(d.heap[0].timer), d.heap[0].at, true
}

// Set changes the deadline of a timer.
func (d *Deadlines[T]) Set(timer int, at T) {
	e := deadline[T]{at, int32(timer)}
	p := int(d.place[timer])
	if p == 0 {
		d.heap = append(d.heap, e)
		d.up(len(d.heap)-1, e)
		return
	}
	if at < d.heap[p-1].at {
		d.up(p-1, e)
	} else if at > d.heap[p-1].at {
		d.down(p-1, e)
	}
}

// Clear removes the deadline of a timer.
func (d *Deadlines[T]) Clear(timer int) {
	p := int(d.place[timer])
	if p == 0 {
		return
	}
	d.place[timer] = 0
	last := len(d.heap) - 1
	e := d.heap[last]
	d.heap = d.heap[:last]
	if p--; p == last {
		return
	}
	if p > 0 && e.before(d.heap[(p-1)/fan]) {
		d.up(p, e)
	} else {
		d.down(p, e)
	}
}

// up puts e at place i or above.
func (d *Deadlines[T]) up(i int, e deadline[T]) {
	for i > 0 {
		parent := (i - 1) / fan
		if !e.before(d.heap[parent]) {
			break
		}
		d.put(i, d.heap[parent])
		i = parent
	}
	d.put(i, e)
}

// down puts e at place i or below.
func (d *Deadlines[T]) down(i int, e deadline[T]) {
	for n := len(d.heap); ; {
		first := fan*i + 1
		if first >= n {
			break
		}
		least := first
		if first+fan <= n {
			c := (*[fan]deadline[T])(d.heap[first:])
			low, high := less(&c[1], &c[0]), 2+less(&c[3], &c[2])
			least += low + (high-low)*less(&c[high&3], &c[low&3])
		} else {
			for k := first + 1; k < n; k++ {
				least += (k - least) * less(&d.heap[k], &d.heap[least])
			}
		}
		if !d.heap[least].before(e) {
			break
		}
		d.put(i, d.heap[least])
		i = least
	}
	d.put(i, e)
}

func (d *Deadlines[T]) put(i int, e deadline[T]) {
	d.heap[i] = e
	d.place[e.timer] = int32(i + 1)
}
