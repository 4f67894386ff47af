package adapter

import (
	"time"

	"softrdma/internal/qp"
)

// Drivers that share the memory of a receive queue (rxe's and siw's providers) post
// receives without a doorbell. Elsewhere the next message finds them. In ERR none comes,
// and they are to be flushed (IBTA 10.3.1.7), so the lane looks at the queue from time to
// time.
const (
	errLookFirst = time.Millisecond      // after the last receive that was found
	errLookLast  = 64 * time.Millisecond // the interval doubles up to this
)

// An errLook is when the lane next looks at the receive queue of a queue pair in ERR.
type errLook struct {
	at       time.Duration
	interval time.Duration
}

// followErr starts or ends the looks after a change of state.
func (q *QP) followErr() {
	switch {
	case q.Attr.State != qp.Err || !q.sharedRecv:
		q.look = nil
	case q.look == nil:
		q.look = &errLook{interval: errLookFirst}
		q.lookAgain(q.lane.dev.clock())
	}
}

func (q *QP) lookAgain(now time.Duration) {
	q.look.at = now + q.look.interval
	q.lane.tasks.Lower(&q.entry, q.look.at)
}

// lookForReceives gives the machine a turn if the program has posted receives, in which
// it flushes them.
func (q *QP) lookForReceives(now time.Duration) {
	if q.look == nil || q.look.at > now {
		return
	}
	if q.Recv.Len() > 0 {
		q.look.interval = errLookFirst
		q.lane.tasks.Push(&q.entry)
	} else {
		q.look.interval = min(2*q.look.interval, errLookLast)
	}
	q.lookAgain(now)
}
