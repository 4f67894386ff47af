package unreliable

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Take gives the receive request that the present message goes to, nil when
// none is posted. It stays taken until Deliver: a message that is dropped half
// way leaves it for the next one. IBTA 9.9.3 completes a request of a shared
// queue in error instead (class E); here an unreliable loss stays silent.
func (q *Queues) Take() *machine.Receive {
	if !q.held {
		if q.RQ == nil || !q.RQ.Take(&q.recv) {
			return nil
		}
		q.held = true
	}
	return &q.recv
}

// Scatter puts data at offset pos of the request taken. It tells whether it
// could; if not, the request is complete in error and the state is ERR.
func (q *Queues) Scatter(c *memory.Cursor, pos uint64, data []byte) bool {
	d := c.Scatter(q.Memory, q.PD, q.recv.SGEs, pos, data)
	if d.Reason == reason.None {
		return true
	}
	// IBTA 9.9.3, class A: the receive queue's own error ends the queue pair.
	f := fault{machine.LocalStatus(d), d}
	q.Host.Refuse(q.Port, d)
	q.completeReceive(f)
	q.enter(qp.Err, f)
	return false
}

// Deliver completes the request taken with a message of n bytes that in ends.
func (q *Queues) Deliver(op queue.WCOp, n uint64, in *machine.In, flags uint32) {
	q.held = false
	q.cqe = queue.CQE{
		WRID: q.recv.WRID, Op: op, ByteLen: uint32(n), QPN: q.QPN, SrcQPN: in.DETH.SrcQPN, Flags: flags,
		PortNum: q.Attr.Port,
	}
	if flags&queue.WCGRH != 0 {
		q.cqe.SL = queue.PacketIPv6
		if in.Dst.Addr().Is4() {
			q.cqe.SL = queue.PacketIPv4
		}
	}
	if flags&queue.WCImm != 0 {
		q.cqe.ImmInv = queue.NetworkOrder(in.Imm)
	}
	if in.Solicited {
		q.cqe.Solicited = 1
	}
	q.RecvCQ.Push(&q.cqe)
}

func (q *Queues) completeReceive(f fault) {
	q.held = false
	q.cqe = queue.CQE{
		WRID: q.recv.WRID, Status: f.status, Op: queue.WCRecv, QPN: q.QPN, PortNum: q.Attr.Port,
		Reason: f.detail.Reason, Expected: f.detail.Expected, Found: f.detail.Found,
		Solicited: 1, // IBTA 11.4.2.2: an error counts as solicited
	}
	q.RecvCQ.Push(&q.cqe)
}

// flushReceives flushes the request taken, then those of a private queue.
func (q *Queues) flushReceives() {
	entered := q.entered
	q.entered = false
	if q.held {
		q.completeReceive(fault{queue.WRFlushErr, q.flushed()})
	}
	switch {
	case q.RQ == nil:
	case q.RQ.Shared():
		if entered { // IBTA 11.6.3.1, o11-5.2.5
			q.Host.Event(q.Port, machine.EventQPLastWQEReached, reason.Detail{})
		}
	default:
		n := 0
		for ; n < flushBatch && q.RQ.Take(&q.recv); n++ {
			q.completeReceive(fault{queue.WRFlushErr, q.flushed()})
		}
		q.moreRecv = n == flushBatch
	}
}
