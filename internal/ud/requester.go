package ud

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// ownQKey in a work request's Q_Key selects the queue pair's own (IBTA 10.2.5).
const ownQKey = 1 << 31

// Next fills out with the next packet and reports whether there is one.
func (q *QP) Next(_ time.Duration, out *machine.Out) bool {
	for q.Ready() {
		i, w := q.Current()
		if w == nil {
			return false
		}
		if status, d := q.packet(i, w, out); status != queue.Success {
			q.Fail(status, d)
			continue
		}
		q.psn = q.psn.Next()
		q.Done()
		return true
	}
	return false
}

// packet builds the packet of request i. The request is read once, because its memory may
// belong to another process.
func (q *QP) packet(i uint32, w *queue.SendWQE, out *machine.Out) (queue.Status, reason.Detail) {
	op, n, flags := w.Op, w.Length, w.Flags
	if op != queue.Send && op != queue.SendImm {
		// IBTA 11.4.1.1: only SEND.
		return queue.LocQPOpErr, reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(q.Type), Found: uint64(op)}
	}
	if int64(n) > int64(q.Attr.PathMTU) {
		// IBTA C10-93.1.1 would drop it without an error; hardware reports one.
		return queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: uint64(q.Attr.PathMTU), Found: uint64(n)}
	}
	if status, d := q.Check(i, w, n); status != queue.Success {
		return status, d
	}
	to := *w.UD()
	path, d := q.resolve(to)
	if path == nil {
		return queue.LocQPOpErr, d
	}
	out.Path = path
	q.send.Restart()
	pieces, status, d := q.Gather(&q.send, i, flags&queue.Inline != 0, 0, int(n), out.Pieces[:0])
	out.Pieces = pieces
	if status != queue.Success {
		return status, d
	}
	out.BTH = ib.BTH{Opcode: ib.UDSendOnly, DestQPN: to.RemoteQPN & 0xffffff, PSN: q.psn, Solicited: flags&queue.Solicited != 0}
	if op == queue.SendImm {
		out.Opcode = ib.UDSendOnlyImm
		out.Imm = queue.NetworkOrder(w.ImmInv)
	}
	out.DETH = ib.DETH{QKey: to.RemoteQKey, SrcQPN: q.QPN}
	if to.RemoteQKey&ownQKey != 0 {
		out.DETH.QKey = q.Attr.QKey
	}
	out.Len = int(n)
	return queue.Success, reason.Detail{}
}

// Destination implements machine.Addresser.
func (q *QP) Destination() (path *qp.Path, qpn uint32) {
	w := q.Peek()
	if w == nil {
		return nil, 0
	}
	to := *w.UD()
	path, _ = q.resolve(to) // Next fails the request
	return path, to.RemoteQPN & 0xffffff
}

// resolve finds the destination of a datagram. The path is nil if there is none.
func (q *QP) resolve(to queue.UD) (*qp.Path, reason.Detail) {
	if q.AHs != nil {
		if path := q.AHs(to); path != nil {
			return path, reason.Detail{}
		}
	}
	return nil, reason.Detail{Reason: reason.AddressHandle, Expected: uint64(q.PD), Found: uint64(to.AHNum)}
}
