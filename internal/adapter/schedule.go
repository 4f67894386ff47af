package adapter

import (
	"container/heap"
	"time"

	"softrdma/internal/machine"
)

// fifo is the list of queue pairs that may have something to send; one stands
// in it at most once.
type fifo struct {
	list []*QP
	head int
}

func (f *fifo) len() int { return len(f.list) - f.head }

func (f *fifo) push(q *QP) {
	if q.ready || q.destroyed {
		return
	}
	q.ready = true
	if f.head > 0 && len(f.list) == cap(f.list) {
		f.list = f.list[:copy(f.list, f.list[f.head:])]
		f.head = 0
	}
	f.list = append(f.list, q)
}

func (f *fifo) pop() *QP {
	for f.head < len(f.list) {
		q := f.list[f.head]
		f.list[f.head] = nil
		f.head++
		if f.head == len(f.list) {
			f.list, f.head = f.list[:0], 0
		}
		q.ready = false
		if !q.destroyed {
			return q
		}
	}
	return nil
}

// timerHeap holds the queue pairs that wait for a deadline, earliest first. A
// queue pair's due time may be earlier than its machine's deadline, never
// later: deadlines move with every packet, and moving them back is left until
// the earlier one passes.
type timerHeap struct{ list []*QP }

func (h *timerHeap) next() time.Duration {
	if len(h.list) == 0 {
		return machine.Never
	}
	return h.list[0].due
}

// due takes the first queue pair off whose time has come.
func (h *timerHeap) due(now time.Duration) *QP {
	if len(h.list) == 0 || h.list[0].due > now {
		return nil
	}
	return heap.Pop(h).(*QP)
}

// lower makes q due at d unless it is due earlier.
func (h *timerHeap) lower(q *QP, d time.Duration) {
	if d < q.due {
		h.set(q, d)
	}
}

// set makes q due at d.
func (h *timerHeap) set(q *QP, d time.Duration) {
	switch {
	case q.destroyed:
	case d == machine.Never:
		h.remove(q)
	case q.timer >= 0:
		q.due = d
		heap.Fix(h, q.timer)
	default:
		q.due = d
		heap.Push(h, q)
	}
}

func (h *timerHeap) remove(q *QP) {
	if q.timer >= 0 {
		heap.Remove(h, q.timer)
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *timerHeap) Len() int           { return len(h.list) }
func (h *timerHeap) Less(i, j int) bool { return h.list[i].due < h.list[j].due }
func (h *timerHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].timer, h.list[j].timer = i, j
}

func (h *timerHeap) Push(x any) {
	q := x.(*QP)
	q.timer = len(h.list)
	h.list = append(h.list, q)
}

func (h *timerHeap) Pop() any {
	n := len(h.list) - 1
	q := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	q.timer, q.due = -1, machine.Never
	return q
}
