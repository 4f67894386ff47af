// Package eventqueue is the event queue of a discrete-event simulation: values
// ordered by time. It reads no clock; the caller passes the time.
package eventqueue

import "time"

// A Queue is a heap of values and their times. The zero value is empty. Unlike
// package container/heap it does not allocate for each value.
type Queue[T any] struct {
	list []entry[T]
	seq  uint64
}

type entry[T any] struct {
	at    time.Duration
	seq   uint64 // values with equal times keep the order of Push
	value T
}

func (e *entry[T]) before(o *entry[T]) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// Push adds a value that is due at a time.
func (q *Queue[T]) Push(at time.Duration, value T) {
	q.list = append(q.list, entry[T]{at, q.seq, value})
	q.seq++
	s := q.list
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(&s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// Next returns the earliest time in the queue, and reports whether the queue has
// a value.
func (q *Queue[T]) Next() (time.Duration, bool) {
	if len(q.list) == 0 {
		return 0, false
	}
	return q.list[0].at, true
}

// Pop removes the earliest value if it is due at the time now, and reports whether
// there was one. Values with equal times are returned in the order of Push.
func (q *Queue[T]) Pop(now time.Duration) (value T, at time.Duration, ok bool) {
	s := q.list
	if len(s) == 0 || s[0].at > now {
		return value, 0, false
	}
	value, at = s[0].value, s[0].at
	n := len(s) - 1
	s[0], s[n] = s[n], entry[T]{}
	s = s[:n]
	q.list = s
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if s[k].before(&s[least]) {
				least = k
			}
		}
		if least == i {
			return value, at, true
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
