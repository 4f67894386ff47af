// Package agenda holds what is to happen at times to come, for what is driven
// by times that it is told: the simulated network, the relay of package bench.
package agenda

import "time"

// An Agenda is a heap of things with their times. The zero value is empty.
// Package container/heap would allocate for each of them.
type Agenda[T any] struct {
	list []entry[T]
	seq  uint64
}

type entry[T any] struct {
	at   time.Duration
	seq  uint64 // those of one moment come as they were added
	what T
}

func (e *entry[T]) before(o *entry[T]) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// Add lets something happen at a time.
func (a *Agenda[T]) Add(at time.Duration, what T) {
	a.list = append(a.list, entry[T]{at, a.seq, what})
	a.seq++
	s := a.list
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// Next is when the next thing happens, false where nothing does.
func (a *Agenda[T]) Next() (time.Duration, bool) {
	if len(a.list) == 0 {
		return 0, false
	}
	return a.list[0].at, true
}

// Take takes the next thing out if its time has come by now: those of one
// moment in the order in which they were added.
func (a *Agenda[T]) Take(now time.Duration) (what T, at time.Duration, ok bool) {
	s := a.list
	if len(s) == 0 || s[0].at > now {
		return what, 0, false
	}
	what, at = s[0].what, s[0].at
	n := len(s) - 1
	s[0], s[n] = s[n], entry[T]{}
	s = s[:n]
	a.list = s
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if s[k].before(&s[least]) {
				least = k
			}
		}
		if least == i {
			return what, at, true
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
