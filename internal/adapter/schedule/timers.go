package schedule

import (
	"container/heap"
	"time"
)

// timers is a heap of the tasks that wait for a deadline, the earliest first. A
// task's due time may be earlier than its deadline, never later: deadlines move
// with every packet, and moving the due time back is left until it passes.
type timers struct{ list []*Entry }

// NextDue is when a task may be overdue, Never where none waits.
func (q *Queue) NextDue() time.Duration {
	if len(q.timers.list) == 0 {
		return Never
	}
	return q.timers.list[0].due
}

// Timers returns the number of tasks that wait for a deadline.
func (q *Queue) Timers() int { return len(q.timers.list) }

// Overdue reports whether a deadline has passed. Due times that are earlier than their
// task's deadline do not count, and are corrected.
func (q *Queue) Overdue(now time.Duration) bool {
	for q.NextDue() <= now {
		e := q.timers.list[0]
		d := e.task.Deadline()
		if d <= now {
			return true
		}
		q.Set(e, d)
	}
	return false
}

// Expire lets the tasks act whose deadlines have passed.
func (q *Queue) Expire(now time.Duration) {
	for q.Overdue(now) {
		e := heap.Pop(&q.timers).(*Entry)
		e.task.Expire(now)
		q.Set(e, e.task.Deadline())
	}
}

// Lower makes a task due at d unless it is due earlier.
func (q *Queue) Lower(e *Entry, d time.Duration) {
	if d < e.due {
		q.Set(e, d)
	}
}

// Set makes a task due at d, Never for not at all.
func (q *Queue) Set(e *Entry, d time.Duration) {
	switch {
	case e.removed:
	case d == Never:
		q.timers.remove(e)
	case e.timer >= 0:
		e.due = d
		heap.Fix(&q.timers, e.timer)
	default:
		e.due = d
		heap.Push(&q.timers, e)
	}
}

func (h *timers) remove(e *Entry) {
	if e.timer >= 0 {
		heap.Remove(h, e.timer)
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *timers) Len() int           { return len(h.list) }
func (h *timers) Less(i, j int) bool { return h.list[i].due < h.list[j].due }
func (h *timers) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].timer, h.list[j].timer = i, j
}

func (h *timers) Push(x any) {
	e := x.(*Entry)
	e.timer = len(h.list)
	h.list = append(h.list, e)
}

func (h *timers) Pop() any {
	n := len(h.list) - 1
	e := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	e.timer, e.due = -1, Never
	return e
}
