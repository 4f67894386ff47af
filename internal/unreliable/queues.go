// Package unreliable is what the machines of UC and UD share: the two queues of
// a queue pair whose work is complete once it has left, with nobody to
// acknowledge it. It owns the order of completions, the SQE state, draining and
// flushing, and the receive request that the next message goes to.
//
// It reads no packet and builds none, and it retries nothing.
package unreliable

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// flushBatch bounds the work of one call while queues are flushed.
const flushBatch = 32

// A fault is an error of a work request; the zero value is none.
type fault struct {
	status queue.Status
	detail reason.Detail
}

// Queues are the queues of one queue pair. Send requests pass three marks:
// those before done are complete; those in [done, next) were given away packet
// by packet and wait for the last packet to leave the machine's caller, who
// still reads their memory; next is being sent.
type Queues struct {
	*machine.Port

	done  uint32
	next  uint32
	begun bool  // a packet of request next was given
	idle  bool  // Next found nothing more: its caller transmits what it has
	fault fault // of request next, told once those before it are complete

	recv machine.Receive
	held bool // recv is taken and not yet complete

	cause    fault // what the queues are flushed for; zero when the user asked
	entered  bool  // ERR was entered and its flush not yet begun
	moreRecv bool  // the receive queue may hold more to flush

	cqe queue.CQE // scratch: an argument of an interface's method would be allocated
}

// New returns the queues of p, empty.
func New(p *machine.Port) Queues {
	i := p.SQ.Consumer()
	return Queues{Port: p, done: i, next: i}
}

// Receiving tells whether the state lets packets in.
func (q *Queues) Receiving() bool {
	s := q.Attr.State
	return s == qp.RTR || s == qp.RTS || s == qp.SQD || s == qp.SQE
}

// Deadline wants an Expire at once while completions wait.
func (q *Queues) Deadline() time.Duration {
	flushing := q.Attr.State == qp.SQE || q.Attr.State == qp.Err
	if q.done != q.next || q.fault.status != queue.Success || q.entered || q.moreRecv ||
		flushing && q.next != q.SQ.Producer() {
		return 0
	}
	return machine.Never
}

// Expire completes what has left and flushes what is to be flushed.
func (q *Queues) Expire(time.Duration) {
	q.Settle()
	q.flush()
}

// Transition follows a change of the state.
func (q *Queues) Transition(_ time.Duration, from qp.State) {
	to := q.Attr.State
	if to == from {
		return
	}
	q.Attr.SQDraining = to == qp.SQD
	switch to {
	case qp.Reset:
		q.forget()
	case qp.SQD:
		q.Settle()
	case qp.RTS:
		// IBTA 10.3.1.6: what was posted in SQE is flushed, not sent.
		for n := 0; from == qp.SQE && n < q.SQ.Depth() && q.next != q.SQ.Producer(); n++ {
			q.flushSend()
		}
		q.cause = fault{}
	case qp.Err:
		q.entered = true
	}
}

// forget empties both queues without a completion (IBTA 10.3.1.1). Requests in
// a shared receive queue are not this queue pair's to drop.
func (q *Queues) forget() {
	*q = Queues{Port: q.Port, recv: q.recv, next: q.SQ.Producer()}
	q.done = q.next
	q.SQ.Release(q.done)
	if q.RQ == nil || q.RQ.Shared() {
		return
	}
	for n := q.RQ.Len(); n > 0 && q.RQ.Take(&q.recv); n-- {
	}
}

// flush completes in error what the state says is lost, a few at a time.
// IBTA 10.3.1.6, 10.3.1.7: in SQE the send queue, in ERR both.
func (q *Queues) flush() {
	if q.Attr.State != qp.SQE && q.Attr.State != qp.Err {
		return
	}
	for n := 0; n < flushBatch && q.next != q.SQ.Producer(); n++ {
		q.flushSend()
	}
	if q.Attr.State == qp.Err {
		q.flushReceives()
	}
}

// enter makes the machine's own transition to SQE or ERR.
func (q *Queues) enter(to qp.State, f fault) {
	from := q.Attr.State
	q.Attr.State = to
	q.Attr.SQDraining = false
	q.cause = f
	q.entered = to == qp.Err
	q.Host.StateChanged(q.Port, from, f.detail)
}

// flushed is the detail of a request that is flushed.
func (q *Queues) flushed() reason.Detail {
	return reason.Detail{Reason: reason.Flushed, Expected: uint64(q.cause.detail.Reason), Found: uint64(q.cause.status)}
}
