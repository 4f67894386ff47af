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
	firstLook = time.Millisecond      // the interval after a look that found something
	lastLook  = 64 * time.Millisecond // the longest interval
)

// A look is when the lane looks next. The interval doubles while nothing is found.
type look struct {
	at       time.Duration
	interval time.Duration
}

func newLook(now time.Duration) *look { return &look{at: now + firstLook, interval: firstLook} }

// next sets when to look again, after a look now that found something or not.
func (l *look) next(now time.Duration, found bool) {
	l.interval = min(2*l.interval, lastLook)
	if found {
		l.interval = firstLook
	}
	l.at = now + l.interval
}

// followErr starts or ends the looks after a change of state.
func (q *QP) followErr() {
	switch {
	case q.Attr.State != qp.Err || !q.sharedRecv:
		q.look = nil
	case q.look == nil:
		q.look = newLook(q.lane.dev.clock())
		q.lane.tasks.Lower(&q.entry, q.look.at)
	}
}

// lookForReceives gives the machine a turn if the program has posted receives, in which
// it flushes them.
func (q *QP) lookForReceives(now time.Duration) {
	if q.look == nil || q.look.at > now {
		return
	}
	found := q.Recv.Len() > 0
	if found {
		q.lane.tasks.Push(&q.entry)
	}
	q.look.next(now, found)
	q.lane.tasks.Lower(&q.entry, q.look.at)
}
