package adapter

import (
	"container/heap"
	"time"

	"softrdma/internal/machine"
)

// A readyList holds the queue pairs that may have something to send, each at
// most once, in the order of rounds: within one, those of a flow come together,
// so that their packets leave together. They are chained by QP.next, the flows
// that have some by txFlow.next. The zero value is empty.
type readyList struct {
	n           int     // queue pairs
	turn        *QP     // those of the flow whose turn it is
	first, last *txFlow // the others
	none        txFlow  // stands for queue pairs without a flow of their own

	gathered int // doorbells that wait, see gathers
}

func (r *readyList) push(q *QP) {
	if q.ready || q.destroyed {
		return
	}
	f := q.flow
	if f == nil {
		f = &r.none
	}
	switch {
	case f.first != nil:
		f.last.next = q
	case r.first == nil:
		f.first, r.first, r.last = q, f, f
	default:
		f.first, r.last.next, r.last = q, f, f
	}
	f.last = q
	q.ready = true
	r.n++
}

func (r *readyList) pop() *QP {
	for r.n > 0 {
		if r.turn == nil {
			f := r.first
			r.turn, f.first, f.last = f.first, nil, nil
			r.first, f.next = f.next, nil
		}
		q := r.turn
		r.turn, q.next = q.next, nil
		q.ready = false
		r.n--
		if !q.destroyed {
			return q
		}
	}
	return nil
}

const (
	// gatherBeyond is how many bytes others have in flight to a peer where what
	// is posted to a queue pair may wait for what is posted to them, and
	// gatherAtMost for how many doorbells.
	gatherBeyond = 64 << 10
	gatherAtMost = 32
)

// gathers tells whether what was posted to q may wait for what is posted to
// others, so that short messages of many leave as one batch. It may while others
// have much on its way to the same peer: the next poll sends it, or the lane's
// goroutine where none comes, unless that sleeps.
func (l *lane) gathers(q *QP) bool {
	if q.share == nil || q.share.Others(&q.Port) < gatherBeyond || l.ready.gathered == gatherAtMost-1 || l.sleeping.Load() != 0 {
		return false
	}
	l.ready.gathered++
	return true
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
