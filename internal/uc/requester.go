package uc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// requester is the message being sent. The work request is read once, as its memory may
// be another process's.
type requester struct {
	psn    psn.PSN // of the next packet
	base   ib.Opcode
	imm    bool // the message carries immediate data
	inline bool
	flags  queue.Flags
	immDt  uint32
	remote queue.RDMA
	length uint32
	pos    uint32 // bytes already sent
	cursor memory.Cursor
}

// Next fills out with the next packet and reports whether there is one.
func (q *QP) Next(now time.Duration, out *machine.Out) bool {
	if q.notifier.Owes() && q.Receiving() {
		q.notifier.Next(&q.Attr, out)
		return true
	}
	for q.Ready() {
		i, w := q.Current()
		if w == nil || q.pacer.waits(now) {
			return false
		}
		if !q.Begun() && (q.Local(w) || !q.start(i, w)) {
			continue
		}
		if q.packet(i, out) {
			out.Markable = q.pacer.sent(now, out.Len, q.Attr.PathMTU)
			return true
		}
	}
	return false
}

// start reads the request, and reports whether it can be sent; otherwise it failed.
func (q *QP) start(i uint32, w *queue.SendWQE) bool {
	op, n := w.Op, w.Length
	q.requester = requester{
		psn: q.requester.psn, length: n, flags: w.Flags, inline: w.Flags&queue.Inline != 0,
		immDt: queue.NetworkOrder(w.ImmInv), remote: *w.RDMA(), cursor: q.requester.cursor,
	}
	q.requester.cursor.Restart()
	switch op {
	case queue.Send, queue.SendImm:
		q.base = ib.UCSendFirst
	case queue.Write, queue.WriteImm:
		q.base = ib.UCWriteFirst
	default:
		// IBTA 11.4.1.1: no READ, no ATOMIC, no invalidate.
		q.Fail(queue.LocQPOpErr, reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(q.Type), Found: uint64(op)})
		return false
	}
	q.imm = op == queue.SendImm || op == queue.WriteImm
	if status, d := q.Check(i, w, n); status != queue.Success {
		q.Fail(status, d)
		return false
	}
	return true
}

// packet builds the next packet of the message of request i.
func (q *QP) packet(i uint32, out *machine.Out) bool {
	r := &q.requester
	n := int(min(r.length-r.pos, uint32(q.Attr.PathMTU)))
	pieces, status, d := q.Gather(&r.cursor, i, r.inline, uint64(r.pos), n, out.Pieces[:0])
	out.Pieces = pieces
	if status != queue.Success {
		q.Fail(status, d)
		return false
	}
	first, last := r.pos == 0, r.length-r.pos == uint32(n)
	out.BTH = ib.BTH{Opcode: r.opcode(first, last), DestQPN: q.Attr.DestQPN, PSN: r.psn}
	// IBTA 9.2: a solicited event is asked for by the last packet of a SEND
	// or of a WRITE with immediate data.
	out.Solicited = last && r.flags&queue.Solicited != 0 && (r.base == ib.UCSendFirst || r.imm)
	if first {
		out.RETH = ib.RETH{Addr: r.remote.Addr, RKey: r.remote.RKey, Length: r.length}
	}
	out.Imm = r.immDt
	out.Len = n
	out.Path = &q.Attr.Path
	r.psn = r.psn.Next()
	r.pos += uint32(n)
	if last {
		q.Done()
	} else {
		q.Begin()
	}
	return true
}

// opcode returns the opcode of a segment: SEND and WRITE have the same order of
// segments from their First on (IBTA table 38).
func (r *requester) opcode(first, last bool) ib.Opcode {
	const middle, end, only = ib.UCSendMiddle - ib.UCSendFirst, ib.UCSendLast - ib.UCSendFirst, ib.UCSendOnly - ib.UCSendFirst
	var o ib.Opcode
	switch {
	case first && last:
		o = only
	case last:
		o = end
	case first:
		return r.base
	default:
		return r.base + middle
	}
	if r.imm {
		o++
	}
	return r.base + o
}
