// Package unreliable is common to the machines of UC and UD: the queues of a queue pair
// without acknowledges. A work request is complete once its last packet has left. The package
// owns the order of completions, the SQE state, draining and flushing, and the receive for the
// next message.
//
// It reads and builds no packets, and retries nothing.
package unreliable

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// flushBatch limits the completions per call while queues are flushed.
const flushBatch = 32

// A fault is the error of a work request. The zero value is no error.
type fault struct {
	status queue.Status
	detail reason.Detail
}

// Queues holds the queues of one queue pair. Send requests between sq.Head and sq.Cur have
// been handed out as packets. They complete when their last packet has left the caller, who
// reads their memory until then.
type Queues struct {
	*machine.Port

	sq    machine.SendQueue
	begun bool  // a packet of the request at sq.Cur was handed out
	idle  bool  // Next found no more packets, so its caller transmits what it holds
	fault fault // of the request at sq.Cur, reported after earlier requests

	recv machine.Receive
	held bool // recv is taken and not complete

	done     machine.Completions
	moreRecv bool // the receive queue may hold more requests to flush
	flushing bool // ERR was entered and its flush has not begun
}

// New returns the empty queues of p.
func New(p *machine.Port) Queues {
	return Queues{Port: p, sq: machine.NewSendQueue(p), done: machine.NewCompletions(p)}
}

// Receiving reports whether the state accepts packets.
func (q *Queues) Receiving() bool {
	s := q.Attr.State
	return s == qp.RTR || s == qp.RTS || s == qp.SQD || s == qp.SQE
}

// Deadline returns now while there are completions to deliver.
func (q *Queues) Deadline() time.Duration {
	flushes := q.Attr.State == qp.SQE || q.Attr.State == qp.Err
	if q.sq.Head != q.sq.Cur || q.fault.status != queue.Success || q.flushing || q.moreRecv ||
		flushes && q.sq.Cur != q.SQ.Producer() {
		return 0
	}
	return machine.Never
}

// Expire completes requests whose packets have left, and flushes.
func (q *Queues) Expire(time.Duration) {
	q.Settle()
	q.flush()
}

// Transition follows a state change.
func (q *Queues) Transition(_ time.Duration, from qp.State) {
	to := q.Attr.State
	if to == from {
		return
	}
	q.Attr.SQDraining = to == qp.SQD
	switch to {
	case qp.Reset:
		q.drop()
	case qp.SQD:
		q.Settle()
	case qp.RTS:
		// IBTA 10.3.1.6: requests posted in SQE are flushed, not sent.
		for n := 0; from == qp.SQE && n < q.SQ.Depth() && q.sq.Cur != q.SQ.Producer(); n++ {
			q.flushSend()
		}
		q.done.Reset()
	case qp.Err:
		q.flushing = true
	}
}

// drop empties both queues without completions (IBTA 10.3.1.1).
func (q *Queues) drop() {
	recv := q.recv
	q.DropReceives(&recv)
	q.SQ.Release(q.SQ.Producer())
	*q = New(q.Port)
	q.recv = recv
}

// flush completes a limited number of requests with WR_FLUSH_ERR: in SQE those of the
// send queue (IBTA 10.3.1.6), in ERR those of both queues (IBTA 10.3.1.7).
func (q *Queues) flush() {
	if q.Attr.State != qp.SQE && q.Attr.State != qp.Err {
		return
	}
	for n := 0; n < flushBatch && q.sq.Cur != q.SQ.Producer(); n++ {
		q.flushSend()
	}
	if q.Attr.State == qp.Err {
		q.flushReceives()
	}
}

// PeerSays notes why the peer ends the connection, and reports whether it says so for the first time.
func (q *Queues) PeerSays(d reason.Detail) (first bool) { return q.done.PeerSays(d) }

// enter moves the machine itself to SQE or ERR.
func (q *Queues) enter(to qp.State, f fault) {
	from := q.Attr.State
	q.Attr.State = to
	q.Attr.SQDraining = false
	q.done.Failed(f.detail, f.status)
	q.flushing = to == qp.Err
	q.Host.StateChanged(q.Port, from, f.detail)
}
