package port

import "time"

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// A Timer is something with a deadline, by the number of its port.
type Timer struct {
	Port int
	Host bool // what the port's host takes, not the port itself

	at    time.Duration
	place int // in the heap, from 1 on; 0 without a deadline
}

// A Schedule is the deadlines of a node, as a heap. The zero value is empty.
type Schedule struct{ heap []*Timer }

// Next returns the timer with the earliest deadline, nil if there is none.
func (s *Schedule) Next() *Timer {
	if len(s.heap) == 0 {
		return nil
	}
	return s.heap[0]
}

// Deadline returns the earliest deadline.
func (s *Schedule) Deadline() time.Duration {
	if len(s.heap) == 0 {
		return Never
	}
	return s.heap[0].at
}

// Set changes a timer's deadline. Never removes the timer.
func (s *Schedule) Set(t *Timer, at time.Duration) {
	switch {
	case t.place == 0 && at == Never:
		return
	case t.place == 0:
		s.heap = append(s.heap, t)
		t.place, t.at = len(s.heap), at
	case at == Never:
		s.remove(t)
		return
	case at == t.at:
		return
	default:
		t.at = at
	}
	s.up(t.place - 1)
	s.down(t.place - 1)
}

func (s *Schedule) remove(t *Timer) {
	i, last := t.place-1, len(s.heap)-1
	s.swap(i, last)
	s.heap = s.heap[:last]
	t.place = 0
	if i < last {
		moved := s.heap[i]
		s.up(i)
		s.down(moved.place - 1)
	}
}

func (s *Schedule) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.heap[parent].at <= s.heap[i].at {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *Schedule) down(i int) {
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(s.heap); k++ {
			if s.heap[k].at < s.heap[least].at {
				least = k
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *Schedule) swap(i, k int) {
	s.heap[i], s.heap[k] = s.heap[k], s.heap[i]
	s.heap[i].place, s.heap[k].place = i+1, k+1
}
