package unreliable

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Take returns the receive for the current message, or nil if none is posted. It stays taken
// until Deliver, so a message that is dropped half way leaves it for the next one. IBTA 9.9.3
// (class E) completes a receive of a shared queue in error instead; here the loss of an
// unreliable message stays silent.
func (q *Queues) Take() *machine.Receive {
	if !q.held {
		if q.RQ == nil || !q.RQ.Take(&q.recv) {
			return nil
		}
		q.held = true
	}
	return &q.recv
}

// Scatter writes data at offset pos of the receive. If it cannot, the receive completes
// in error, the state becomes ERR, and Scatter reports false.
func (q *Queues) Scatter(c *memory.Cursor, pos uint64, data []byte) bool {
	d := c.Scatter(q.Memory, q.RecvPD, q.recv.SGEs, pos, data)
	if d.Reason == reason.None {
		return true
	}
	// IBTA 9.9.3, class A: an error of the receive queue ends the queue pair.
	f := fault{machine.LocalStatus(d), d}
	q.Host.Refuse(q.Port, d)
	q.failReceive(f)
	q.enter(qp.Err, f)
	return false
}

// Deliver completes the receive with a message of n bytes after its last packet.
func (q *Queues) Deliver(op queue.WCOp, n uint64, in *machine.In, flags uint32) {
	q.held = false
	m := machine.Received{Op: op, Length: uint32(n), Flags: flags, Solicited: in.Solicited, SrcQPN: in.DETH.SrcQPN}
	switch {
	case in.LRH.Present:
		m.SL, m.SLID, m.PathBits = in.LRH.SL, in.Src.Port(), in.LRH.PathBits
	case flags&queue.WCGRH == 0:
	case in.Dst.Addr().Is4():
		m.SL = queue.PacketIPv4
	default:
		m.SL = queue.PacketIPv6
	}
	if flags&queue.WCImm != 0 {
		m.ImmInv = queue.NetworkOrder(in.Imm)
	}
	q.done.Received(q.recv.WRID, &m)
}

func (q *Queues) failReceive(f fault) {
	q.held = false
	q.done.ReceiveFailed(q.recv.WRID, f.status, f.detail)
}

// flushReceives flushes the taken receive, then those of a private queue.
func (q *Queues) flushReceives() {
	q.flushing = false
	if q.held {
		q.failReceive(fault{queue.WRFlushErr, q.done.Flushed()})
	}
	q.moreRecv = q.done.FlushReceives(&q.recv, flushBatch)
	q.done.LastWQE()
}
