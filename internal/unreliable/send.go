package unreliable

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Ready reports whether requests may be sent. It also completes requests whose packets have
// left, and flushes, so call it before each packet.
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

// Current returns the request to send from and its index, or nil. IBTA 10.3.1.5: in SQD a
// message that has begun is finished and no other is started.
func (q *Queues) Current() (uint32, *queue.SendWQE) {
	if q.sq.Cur == q.SQ.Producer() || q.Attr.State == qp.SQD && !q.begun {
		q.idle = true
		return 0, nil
	}
	return q.sq.Cur, q.SQ.At(q.sq.Cur)
}

// Peek returns the request that Current would return, or nil. It changes nothing.
func (q *Queues) Peek() *queue.SendWQE {
	if q.Attr.State != qp.RTS || q.fault.status != queue.Success || q.sq.Cur == q.SQ.Producer() {
		return nil
	}
	return q.SQ.At(q.sq.Cur)
}

// Local executes the current request if it is an operation on local memory windows or keys,
// and reports whether it was one (IBTA 10.6.7, 11.4.1.1).
func (q *Queues) Local(w *queue.SendWQE) bool {
	op := w.Op
	if !op.Local() {
		return false
	}
	if status, d := q.Port.Local(op, w); status == queue.Success {
		q.Done()
	} else {
		q.Fail(status, d)
	}
	return true
}

// Begun reports whether a packet of the current request was handed out.
func (q *Queues) Begun() bool { return q.begun }

// Begin records that the first packet of the current request was handed out, and more follow.
func (q *Queues) Begin() { q.begun = true }

// Done records that the last packet of the current request was handed out.
func (q *Queues) Done() {
	q.sq.Forward()
	q.begun = false
}

// Fail completes the current request in error, after all requests before it.
func (q *Queues) Fail(status queue.Status, d reason.Detail) {
	q.Host.Refuse(q.Port, d)
	q.fault = fault{status, d}
	if q.sq.Head == q.sq.Cur && !q.begun {
		q.Settle() // no packet of this queue waits for transmission
	}
}

// Sent records that all handed-out packets have left: the memory of their requests is no
// longer read.
func (q *Queues) Sent() { q.Settle() }

// Settle completes the handed-out requests. Call it only if the caller of the machine holds no
// packet that it has not transmitted.
func (q *Queues) Settle() {
	for q.sq.Head != q.sq.Cur {
		q.complete(fault{})
	}
	if f := q.fault; f.status != queue.Success {
		q.fault = fault{}
		q.Done()
		q.complete(f)
		// IBTA 10.3.1.6: an error of the send queue stops it and leaves the receive
		// queue alone.
		if q.Attr.State == qp.RTS || q.Attr.State == qp.SQD {
			q.enter(qp.SQE, f)
		}
	}
	if q.Attr.State == qp.SQD && q.Attr.SQDraining && !q.begun {
		q.Drained()
	}
}

// flushSend flushes the oldest request. All earlier ones are complete.
func (q *Queues) flushSend() {
	q.Done()
	q.complete(fault{queue.WRFlushErr, q.done.Flushed()})
}

// complete completes the oldest request. It frees the slot before the completion becomes
// visible.
func (q *Queues) complete(f fault) {
	w := q.SQ.At(q.sq.Head)
	wrid, op, flags, length := w.WRID, w.Op, w.Flags, w.Length
	q.sq.Release()
	if f.status != queue.Success {
		q.done.SendFailed(wrid, op, f.status, f.detail)
		return
	}
	q.done.CountSend(op)
	q.done.Sent(wrid, op, flags, length)
}

// Check returns why the data of request i, n bytes, cannot be sent, as far as this is known
// before the first packet (IBTA 9.9.2).
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

// Gather appends the n bytes at offset pos of the data of request i to pieces.
func (q *Queues) Gather(c *memory.Cursor, i uint32, inline bool, pos uint64, n int, pieces [][]byte) ([][]byte, queue.Status, reason.Detail) {
	if n == 0 {
		return pieces, queue.Success, reason.Detail{}
	}
	if inline {
		// Check has verified that pos+n is within the inline room. The request's length is not
		// read again, because another process may have changed it.
		return append(pieces, q.SQ.InlineRoom(i)[pos:pos+uint64(n)]), queue.Success, reason.Detail{}
	}
	pieces, d := c.Gather(q.Memory, q.PD, q.SQ.SGEs(i), pos, n, pieces)
	return pieces, machine.LocalStatus(d), d
}
