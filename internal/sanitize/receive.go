package sanitize

import (
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
)

// A Receives is a receive queue as a Sanitizer sees it.
type Receives struct {
	PD   uint32
	Ring func() *queue.RecvRing
}

// receives is the receive queue of a queue pair, or a shared one.
type receives struct {
	Receives
	object
	next   uint32   // index in the ring behind the last receive that was looked at
	posted []posted // receives that the device has not taken, the oldest first
	unseen bool     // the receive that was taken last was not looked at before
}

// posted is a receive that was posted.
type posted struct {
	index uint32
	where []uintptr
	lent  *loan // nil if a change would not be found
}

// CreatedSRQ notes a new shared receive queue.
func (s *Sanitizer) CreatedSRQ(o any, r Receives) {
	if s == nil {
		return
	}
	x := s.created(o, "shared receive queue")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receives[o] = newReceives(r, x)
}

func newReceives(r Receives, x *object) *receives {
	return &receives{Receives: r, object: *x, next: r.Ring().Ring.Producer(), unseen: true}
}

// PostedReceives looks at the receives that were posted since the last call, to a queue pair or to a shared
// receive queue.
func (s *Sanitizer) PostedReceives(o any) {
	if s == nil {
		return
	}
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receives[o]
	if r == nil {
		return
	}
	ring := r.Ring()
	if first := ring.Consumer(); ring.Distance(first, r.next) > ring.Ring.Len() {
		r.next = first // the queue was emptied
	}
	for end := ring.Ring.Producer(); r.next != end; r.next = ring.Next(r.next) {
		s.receive(r, ring, r.next, where)
	}
}

// receive checks a receive that was posted.
func (s *Sanitizer) receive(r *receives, ring *queue.RecvRing, i uint32, where []uintptr) {
	list := append([]memory.SGE(nil), ring.SGEs(i)...)
	for _, e := range list {
		s.checkKey(r.name, r.PD, e, where)
	}
	x := loan{rule: ReceiveChanged, owner: &r.object, what: fmt.Sprintf("receive %#x", ring.At(i).WRID), when: "a message came for it", where: where}
	r.posted = append(r.posted, posted{i, where, s.lend(x, list)})
}

// Taking notes that the device is about to take the receive at an index of a ring, for a message or, if not
// used, to flush it.
func (s *Sanitizer) Taking(o any, i uint32, used bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receives[o]
	if r == nil {
		return
	}
	for k, x := range r.posted {
		if x.index != i {
			continue
		}
		for _, old := range r.posted[:k] {
			s.lent.remove(old.lent)
		}
		if used {
			s.compare(x.lent)
		} else {
			s.lent.remove(x.lent)
		}
		r.posted, r.unseen = r.posted[k+1:], false
		return
	}
	r.next, r.unseen = r.Ring().Next(i), true
}

// Emptied notes that all requests of a queue pair, or all receives of a shared receive queue, have left the ring
// or moved to another one.
func (s *Sanitizer) Emptied(o any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty(o)
}

func (s *Sanitizer) empty(o any) {
	if q := s.pairs[o]; q != nil {
		for _, r := range q.posted {
			s.lent.remove(r.lent)
		}
		q.posted, q.unsignaled, q.seen = nil, 0, q.SQ.Ring.Producer()
	}
	if r := s.receives[o]; r != nil {
		for _, x := range r.posted {
			s.lent.remove(x.lent)
		}
		r.posted, r.next = nil, r.Ring().Ring.Producer()
	}
}

// at returns where the receive at an index was posted, nil if that is not known.
func (r *receives) at(i uint32) []uintptr {
	if r != nil {
		for _, x := range r.posted {
			if x.index == i {
				return x.where
			}
		}
	}
	return nil
}
