package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A peer is what is known of the other end: whether it announces in its
// packets that it knows of selective acknowledges.
type peer uint8

const (
	unmet peer = iota
	standard
	selective
)

// meet learns from the peer's packets. One that does not announce anything in
// its first answer is taken for a standard one, and sees no reserved bit again.
func (q *QP) meet(in *machine.In, info *ib.Info) {
	switch {
	case q.store == nil || q.peer == selective:
	case in.Selective:
		q.peer = selective
	case q.peer == unmet && isAnswer(info.Kind):
		q.peer = standard
	}
}

// selective tells whether both ends know of selective acknowledges.
func (q *QP) selective() bool { return q.peer == selective }

// announces tells whether packets say so of this end.
func (q *QP) announces() bool { return q.store != nil && q.peer != standard }

// urgent produces what goes before everything else: a congestion notification,
// a selective acknowledge, or a keep-alive probe.
func (q *QP) urgent(out *machine.Out) bool {
	if !q.notifier.Owes() && !q.resp.tell && !q.alive.ask || q.p.Attr.State == qp.Err {
		return false
	}
	if q.alive.ask {
		return q.probe(out) || q.urgent(out)
	}
	if q.notifier.Owes() {
		q.notifier.Next(&q.p.Attr, out)
		if q.selective() {
			out.PSN = q.notifier.About() // the peer can tell it from a forged one
		}
		return true
	}
	q.resp.selectiveAck(out)
	return true
}

// notified slows down, as the peer asks for.
func (q *QP) notified(now time.Duration) {
	if q.kind == congestion.None {
		q.refuse(reason.Detail{Reason: reason.CongestionIgnored, Expected: uint64(congestion.Window), Found: uint64(q.p.QPN)})
		return
	}
	q.ctl.Notified(now, &q.req.rtt)
	q.refuse(reason.Detail{Reason: reason.CongestionNotified, Expected: uint64(q.ctl.Window()), Found: uint64(q.ctl.Rate())})
}

// waits tells whether the control lets no data leave now.
func (q *QP) waits(now time.Duration) bool {
	if q.kind != congestion.DCQCN {
		return false
	}
	at := q.ctl.Ready(now)
	if at <= now {
		q.paceAt = machine.Never
		return false
	}
	q.paceAt = at
	return true
}

// isAcknowledge tells packets that no control counts.
func isAcknowledge(o ib.Opcode) bool {
	return o == ib.RCAcknowledge || o == ib.RCSelectiveAck || o == ib.CongestionNotify
}
