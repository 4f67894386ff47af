package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// This file decides which packet leaves next.

// burst is how many packets READ responses and requests send in turn when both have
// something to send: long enough to fill batches of equal packets, short enough that
// neither starves.
const burst = 16

// Next implements machine.Machine.
func (q *QP) Next(now time.Duration, out *machine.Out) bool {
	if q.paces && !out.Whole {
		out.Longest = 0 // packets are paced
	}
	out.Train = 0
	q.req.window.lossless = out.Lossless
	if !q.urgent(now, out) && !q.next(now, out) {
		return false
	}
	q.resp.Sent(now)
	out.Selective = q.announces()
	if q.paces && !isAnswer(out.Opcode.Info().Kind) {
		out.Wide = q.req.wantsMore() || out.Wide
		out.Telemetry = q.kind == congestion.HPCC && q.c.Selective()
	}
	out.Markable = q.kind.ECN() && out.Opcode != ib.CongestionNotify
	if q.paces {
		q.count(now, out)
	}
	return true
}

// urgent produces what goes before everything else: a keep-alive probe, a congestion
// notification, a selective acknowledge, telemetry, or a path probe.
func (q *QP) urgent(now time.Duration, out *machine.Out) bool {
	if !q.notifier.Owes() && !q.resp.OwesReport() && !q.alive.wanted && !q.narrow.owes() || q.c.Port.Attr.State == qp.Err {
		return false
	}
	if q.alive.wanted && q.sendProbe(out) {
		return true
	}
	switch {
	case q.notifier.Owes():
		q.notifier.Next(&q.c.Port.Attr, out)
		if q.c.Selective() {
			out.PSN = q.notifier.About() // lets the peer tell it from a forged one
		}
	case q.resp.OwesReport():
		q.resp.Report(now, out)
	case q.narrow.owes():
		q.narrow.next(now, q, out)
	default:
		return false
	}
	return true
}

// next produces the next packet that has to take its turn.
func (q *QP) next(now time.Duration, out *machine.Out) bool {
	if q.paced(now) {
		// Answers with data wait only for DCQCN: other controls are not told of them.
		wait := q.kind == congestion.DCQCN && q.resp.Streams()
		return !wait && q.resp.Owes() && q.resp.Next(out)
	}
	switch q.c.Port.Attr.State {
	case qp.RTS:
		if !q.resp.Owes() {
			if q.req.next(now, out) {
				return true
			}
			q.settle() // a work request may have failed here
			return q.resp.Owes() && q.resp.Next(out)
		}
		if q.resp.OwesAckOnly() && !out.Lossless {
			return q.beforeAcknowledge(now, out)
		}
		return q.both(now, out)
	case qp.SQD:
		more := q.both(now, out)
		if !more {
			q.settle()
		}
		return more
	case qp.Err:
		// Requests posted since are flushed as well (IBTA 10.3.1.7).
		q.flush()
		return q.resp.Owes() && q.resp.Next(out)
	case qp.RTR:
		return q.resp.Owes() && q.resp.Next(out)
	}
	return false
}

// beforeAcknowledge lets up to burst requests go before an acknowledge, which is shorter:
// the answers to a message and its acknowledge leave as one batch. There is no order
// between the two directions of a connection, but programs such as tgtd expect that their message
// has completed before they receive the answer. So the acknowledge goes first through memory, where
// there are no batches.
func (q *QP) beforeAcknowledge(now time.Duration, out *machine.Out) bool {
	if q.turn < burst && q.req.next(now, out) {
		q.turn++
		return true
	}
	q.turn = 0
	q.settle()
	return q.resp.Owes() && q.resp.Next(out)
}

// both lets responses go before requests, but gives READ responses and requests turns of
// burst packets each while both have something to send.
func (q *QP) both(now time.Duration, out *machine.Out) bool {
	streaming := q.resp.Streams()
	requests := streaming && q.turn >= burst
	if requests && q.req.next(now, out) {
		if q.turn++; q.turn >= 2*burst {
			q.turn = 0
		}
		return true
	}
	if q.resp.Owes() && q.resp.Next(out) {
		if streaming && q.turn < burst {
			q.turn++
		}
		return true
	}
	if !requests && q.req.next(now, out) {
		return true
	}
	q.settle()
	return q.resp.Owes() && q.resp.Next(out)
}

// Deadline implements machine.Machine.
func (q *QP) Deadline() time.Duration {
	r := &q.req.recovery
	return min(r.retry.ackAt, r.rnr.until, r.loss.at, r.tail.at, q.paceAt, q.alive.at, q.portCheckAt(), q.narrow.deadline(q), q.resp.Deadline())
}

// Expire implements machine.Machine.
func (q *QP) Expire(now time.Duration) {
	if q.paceAt <= now {
		q.paceAt = machine.Never
	}
	q.resp.Expire(now)
	q.req.recovery.expire(now)
	if q.alive.at <= now {
		q.checkPeer(now)
	}
	if q.portCheckAt() <= now {
		q.probePort(now)
	}
	if q.narrow.deadline(q) <= now {
		q.narrow.expire(now, q)
	}
	q.settle()
}
