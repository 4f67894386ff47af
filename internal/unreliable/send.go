package unreliable

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Ready tells whether requests may be sent. Call it whenever a packet is
// wanted: it also completes what has left since the last time that nothing was
// found, and flushes.
func (q *Queues) Ready() bool {
	if q.idle {
		q.idle = false
		q.Settle()
	}
	switch q.Attr.State {
	case qp.RTS, qp.SQD:
		if q.fault.status == queue.Success {
			return true
		}
	case qp.SQE, qp.Err:
		q.Settle()
		q.flush()
	}
	q.idle = true
	return false
}

// Head is the request to send now and its index, nil when there is none.
// IBTA 10.3.1.5: in SQD the message begun is finished and no other started.
func (q *Queues) Head() (uint32, *queue.SendWQE) {
	if q.next == q.SQ.Producer() || q.Attr.State == qp.SQD && !q.begun {
		q.idle = true
		return 0, nil
	}
	return q.next, q.SQ.At(q.next)
}

// Begun tells whether a packet of the head was given.
func (q *Queues) Begun() bool { return q.begun }

// Begin notes that the first packet of the head was given, and more follow.
func (q *Queues) Begin() { q.begun = true }

// Done notes that the last packet of the head was given.
func (q *Queues) Done() {
	q.next = q.SQ.Next(q.next)
	q.begun = false
}

// Fail completes the head in error, after all before it.
func (q *Queues) Fail(status queue.Status, d reason.Detail) {
	q.Host.Refuse(q.Port, d)
	q.fault = fault{status, d}
	if q.done == q.next && !q.begun {
		q.Settle() // nothing of this queue is on its way out
	}
}

// Sent tells that all packets given so far have left: the memory of their
// requests is no longer read.
func (q *Queues) Sent() { q.Settle() }

// Settle completes what was given away. It may be called only when the caller
// of the machine holds no packet that it has not transmitted.
func (q *Queues) Settle() {
	for q.done != q.next {
		q.complete(q.done, fault{})
	}
	if f := q.fault; f.status != queue.Success {
		q.fault = fault{}
		q.Done()
		q.complete(q.done, f)
		// IBTA 10.3.1.6: an error of the send queue stops it and leaves the
		// receive queue alone.
		if q.Attr.State == qp.RTS || q.Attr.State == qp.SQD {
			q.enter(qp.SQE, f)
		}
	}
	if q.Attr.State == qp.SQD && q.Attr.SQDraining && !q.begun {
		q.Attr.SQDraining = false
		q.Host.StateChanged(q.Port, qp.SQD, reason.Detail{})
		if q.Attr.EnSQDNotify {
			q.Host.Event(q.Port, machine.EventSQDrained, reason.Detail{})
		}
	}
}

// flushSend completes the oldest request as flushed. All before it are complete.
func (q *Queues) flushSend() {
	q.Done()
	q.complete(q.done, fault{queue.WRFlushErr, q.flushed()})
}

// complete releases request i, the oldest, and tells of it where it is
// signalled or failed. The slot is free before the completion can be seen.
func (q *Queues) complete(i uint32, f fault) {
	w := q.SQ.At(i)
	tell := q.SQSigAll || w.Flags&queue.Signaled != 0 || f.status != queue.Success
	q.cqe = queue.CQE{
		WRID: w.WRID, Status: f.status, Op: w.Op.Completed(), ByteLen: w.Length, QPN: q.QPN, PortNum: q.Attr.Port,
		Reason: f.detail.Reason, Expected: f.detail.Expected, Found: f.detail.Found,
	}
	if f.status != queue.Success {
		q.cqe.Solicited = 1 // IBTA 11.4.2.2: an error counts as solicited
	}
	q.done = q.SQ.Next(i)
	q.SQ.Release(q.done)
	if tell {
		q.SendCQ.Push(&q.cqe)
	}
}

// Check tells why the data of request i, of n bytes, cannot be sent: status and
// reason, as a requester finds them before the first packet (IBTA 9.9.2).
func (q *Queues) Check(i uint32, w *queue.SendWQE, n uint32) (queue.Status, reason.Detail) {
	switch {
	case n > machine.MaxMessage:
		return queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: machine.MaxMessage, Found: uint64(n)}
	case w.Flags&queue.Inline != 0:
		if uint64(n) > uint64(q.SQ.MaxInline()) {
			return queue.LocLenErr, reason.Detail{Reason: reason.InlineTooLong, Expected: uint64(q.SQ.MaxInline()), Found: uint64(n)}
		}
		return queue.Success, reason.Detail{}
	case uint64(w.NumSGE) > uint64(q.SQ.MaxSGE()):
		return queue.LocQPOpErr, reason.Detail{Reason: reason.TooManySGEs, Expected: uint64(q.SQ.MaxSGE()), Found: uint64(w.NumSGE)}
	}
	if d := q.Memory.CheckList(q.PD, q.SQ.SGEs(i), 0); d.Reason != reason.None {
		return queue.LocProtErr, d
	}
	return queue.Success, reason.Detail{}
}

// Gather appends n bytes from offset pos of the data of request i to pieces.
func (q *Queues) Gather(c *memory.Cursor, i uint32, inline bool, pos uint64, n int, pieces [][]byte) ([][]byte, queue.Status, reason.Detail) {
	if n == 0 {
		return pieces, queue.Success, reason.Detail{}
	}
	if inline {
		// Check has found that pos+n lies in the room. The request's own length
		// is not asked again: another process may have changed it.
		return append(pieces, q.SQ.InlineRoom(i)[pos:pos+uint64(n)]), queue.Success, reason.Detail{}
	}
	pieces, d := c.Gather(q.Memory, q.PD, q.SQ.SGEs(i), pos, n, pieces)
	return pieces, machine.LocalStatus(d), d
}
