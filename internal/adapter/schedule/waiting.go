package schedule

import (
	"math/bits"
	"slices"
)

// Waiting is tasks that wait for room in a link, by service level. The zero value is empty.
type Waiting struct {
	levels uint16 // service levels with tasks
	tasks  [16][]*Entry
}

// Add makes a task wait for a service level.
func (w *Waiting) Add(e *Entry, level uint8) {
	level %= 16
	w.levels |= 1 << level
	if !slices.Contains(w.tasks[level], e) {
		w.tasks[level] = append(w.tasks[level], e)
	}
}

// Resume lets the tasks of service levels with room have a turn.
func (w *Waiting) Resume(q *Queue, link interface{ Room(level uint8) bool }) {
	for rest := w.levels; rest != 0; rest &= rest - 1 {
		level := uint8(bits.TrailingZeros16(rest))
		if !link.Room(level) {
			continue
		}
		w.levels &^= 1 << level
		for i, e := range w.tasks[level] {
			q.Push(e)
			w.tasks[level][i] = nil
		}
		w.tasks[level] = w.tasks[level][:0]
	}
}
