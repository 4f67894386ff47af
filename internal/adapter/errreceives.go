package adapter

import (
	"time"

	"softrdma/internal/adapter/relook"
	"softrdma/internal/qp"
)

// Drivers that share the memory of a receive queue (rxe's and siw's providers) post
// receives without a doorbell. Elsewhere the next message finds them. In ERR none comes,
// and they are to be flushed (IBTA 10.3.1.7), so the lane looks at the queue from time to
// time.

// followErr starts or ends the looks after a change of state.
func (q *QP) followErr() {
	switch {
	case q.Attr.State != qp.Err || !q.sharedRecv:
		q.look = nil
	case q.look == nil:
		q.look = relook.Begin(q.lane.dev.clock())
		q.lane.tasks.Lower(&q.entry, q.look.At)
	}
}

// lookForReceives gives the machine a turn if the program has posted receives, in which
// it flushes them.
func (q *QP) lookForReceives(now time.Duration) {
	if q.look == nil || q.look.At > now {
		return
	}
	found := q.Recv.Len() > 0
	if found {
		q.lane.tasks.Push(&q.entry)
	}
	q.look.Next(now, found)
	q.lane.tasks.Lower(&q.entry, q.look.At)
}
