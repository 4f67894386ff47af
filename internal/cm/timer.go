package cm

import (
	"container/heap"
	"time"

	"softrdma/internal/machine"
)

// A timer is an entry of a Manager's heap of deadlines.
type timer struct {
	at    time.Duration
	place int // position in the heap, plus one; 0 if it is not in the heap
	owner interface{ expire(now time.Duration) }
}

// timers is the heap. It holds pointers, so that moving an entry is cheap and a timer knows
// its position.
type timers []*timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	e := x.(*timer)
	e.place = len(*t) + 1
	*t = append(*t, e)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	e.place = 0
	return e
}

func (t timers) deadline() time.Duration {
	if len(t) == 0 {
		return machine.Never
	}
	return t[0].at
}

// set sets the time of a timer, and adds it to the heap if it was not there.
func (t *timers) set(e *timer, at time.Duration) {
	e.at = at
	if e.place == 0 {
		heap.Push(t, e)
		return
	}
	heap.Fix(t, e.place-1)
}

// stop removes a timer from the heap.
func (t *timers) stop(e *timer) {
	if e.place != 0 {
		heap.Remove(t, e.place-1)
	}
}

// duration returns the value of a field of 5 bits: 4.096 µs times 2 to its power (IBTA 12.6.5,
// 12.6.6). As in Linux it is at least a millisecond, so that a peer's request cannot make
// this end repeat its answers at line rate.
func duration(field uint8) time.Duration {
	return max(4096*time.Nanosecond<<min(field, 31), time.Millisecond)
}

// ackTimeout combines the peer's ACK delay and twice the packet life time into one
// exponent (IBTA 12.7.34). Rounding up adds one, which doubles the time, so it happens
// only if the smaller of the two is at least half of the other. Linux computes the same.
func ackTimeout(ackDelay, lifeTime uint8) uint8 {
	t := lifeTime + 1
	if t >= ackDelay {
		if ackDelay >= t-1 {
			t++
		}
	} else if d := t; d >= ackDelay-1 {
		t = ackDelay + 1
	} else {
		t = ackDelay
	}
	return min(t, 31)
}
