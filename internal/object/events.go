package object

import (
	"slices"
	"sync"
)

// Events holds asynchronous events until the program receives them. Init prepares it.
type Events[E any] struct {
	mu     sync.Mutex
	list   []E
	signal chan struct{} // holds one token while list may be non-empty
}

// Init prepares the queue.
func (q *Events[E]) Init() { q.signal = make(chan struct{}, 1) }

// Signal gives a token when there may be an event to take.
func (q *Events[E]) Signal() <-chan struct{} { return q.signal }

// Push adds an event.
func (q *Events[E]) Push(e E) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	q.wake()
}

func (q *Events[E]) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Len returns the number of events.
func (q *Events[E]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// Take removes the oldest event, and reports whether there was one.
func (q *Events[E]) Take() (e E, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return e, false
	}
	e = q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	if len(q.list) > 0 {
		q.wake()
	}
	return e, true
}

// Drop removes the matching events, for an element that is being destroyed.
func (q *Events[E]) Drop(match func(E) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, match)
}
