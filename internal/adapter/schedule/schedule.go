// Package schedule decides which task of a lane sends next and which one waits for
// which deadline. It knows nothing of queue pairs, packets or streams: it owns the
// order in which tasks send (Queue.Pop) and the heap of their deadlines (Queue.Expire).
// It takes no lock; the holder of the lane's lock calls it.
package schedule

import "time"

// Never is the deadline of a task that waits for nothing.
const Never = time.Duration(1<<63 - 1)

// A Task is what a lane schedules. Times are on the device's monotonic clock.
type Task interface {
	// Next sends what the task has for one turn. It returns how many packets those
	// were and reports whether there may be more. A task whose deadline becomes
	// earlier tells the queue (Queue.Lower).
	Next(now time.Duration) (packets int, more bool)

	// Deadline is when Expire is to be called, Never for not at all.
	Deadline() time.Duration

	// Expire acts on deadlines that have passed.
	Expire(now time.Duration)
}

// An Entry is the place of a task in a queue. It is part of the task's own memory.
type Entry struct {
	task    Task
	group   *Group
	next    *Entry // behind it among the ready ones of the group
	ready   bool
	removed bool
	timer   int // index in the heap, -1 outside it
	due     time.Duration
}

// Init makes the entry of a task.
func (e *Entry) Init(t Task) { *e = Entry{task: t, timer: -1, due: Never} }

// Task returns the entry's task.
func (e *Entry) Task() Task { return e.task }

// SetGroup puts the task into a group, or none if it is nil, from its next Push on.
func (e *Entry) SetGroup(g *Group) { e.group = g }

// Removed reports whether Queue.Remove took the entry out for good.
func (e *Entry) Removed() bool { return e.removed }

// A Group is a set of tasks whose packets can leave in one batch, so that they are
// best sent together. The zero value is ready for use.
type Group struct {
	first, last *Entry // ready ones
	next        *Group // behind it among the groups that have some
}

// A Queue holds the tasks of a lane. Ready ones send in rounds, each once in a
// round; within a round the tasks of a group come together. The zero value is
// empty.
type Queue struct {
	ready       int    // entries
	turn        *Entry // what is left of the group whose turn it is
	first, last *Group // the others
	none        Group  // of tasks without a group

	timers timers
}

// Ready returns the number of tasks that wait for their turn.
func (q *Queue) Ready() int { return q.ready }

// Push lets a task have a turn: it may have something to send.
func (q *Queue) Push(e *Entry) {
	if e.ready || e.removed {
		return
	}
	g := e.group
	if g == nil {
		g = &q.none
	}
	switch {
	case g.first != nil:
		g.last.next = e
	case q.first == nil:
		g.first, q.first, q.last = e, g, g
	default:
		g.first, q.last.next, q.last = e, g, g
	}
	g.last = e
	e.ready = true
	q.ready++
}

// Pop takes the task off whose turn it is, nil if none is ready.
func (q *Queue) Pop() *Entry {
	for q.ready > 0 {
		if q.turn == nil {
			g := q.first
			q.turn, g.first, g.last = g.first, nil, nil
			q.first, g.next = g.next, nil
		}
		e := q.turn
		q.turn, e.next = e.next, nil
		e.ready = false
		q.ready--
		if !e.removed {
			return e
		}
	}
	return nil
}

// Remove takes the task out for good.
func (q *Queue) Remove(e *Entry) {
	q.timers.remove(e)
	e.removed = true
}
