package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	// silentProbes is how often a peer is asked at least before it is given up for
	// saying nothing for machine.Port.PeerTimeout.
	silentProbes = 3

	// doubtProbes is how often a peer is asked of which the network says that it is
	// not there, doubtWait apart at least: together they take twice the time in which
	// an answer is due, so that a peer which is there answers one of them.
	doubtProbes = 8
	doubtWait   = 100 * time.Millisecond

	// answerSpan is how far back the PSN of an answer may lie that the network quotes.
	answerSpan = 4096
)

// A keepalive finds out whether the peer is still there, while it says nothing
// (machine.Port.PeerTimeout) or when the network says that it is not.
//
// The peer is asked by a duplicate: an empty SEND with the PSN before the oldest
// unacknowledged one. A responder acknowledges duplicates of SENDs without executing
// them or looking at keys, rights and receives (IBTA 9.7.5.1.1, C9-105), so the probe
// takes no PSN and changes nothing at either end. Linux's rxe answers so, and adapters do.
type keepalive struct {
	heard time.Duration // when the last answer to a probe came; QP.heard has other packets
	began time.Duration // the first probe that is not answered
	at    time.Duration // the next look at the clock
	asked uint8         // probes without an answer
	ask   bool          // one is to be sent
	doubt reason.Detail // what the network says, None for nothing
}

// startKeepalive begins when the connection stands.
func (q *QP) startKeepalive(now time.Duration) {
	q.alive = keepalive{heard: now, at: machine.Never}
	if q.p.PeerTimeout > 0 {
		q.alive.at = now + q.patience()
	}
}

// patience is how long the peer may say nothing until it is asked, and between one
// probe and the next.
func (q *QP) patience() time.Duration {
	d := q.p.PeerProbe
	if d == 0 {
		d = q.p.PeerTimeout / (silentProbes + 1)
	}
	if q.alive.doubt.Reason == reason.None {
		return d
	}
	wait := max(doubtWait, q.p.Attr.AckTimeout()/4)
	if d > 0 {
		wait = min(wait, d)
	}
	return wait
}

// look asks the peer, waits on, or gives it up.
func (q *QP) look(now time.Duration) {
	k := &q.alive
	k.at, k.heard = machine.Never, max(k.heard, q.heard)
	if s := q.p.Attr.State; s != qp.RTS && s != qp.SQD {
		return
	}
	if k.asked > 0 && k.heard > k.began {
		k.asked, k.doubt = 0, reason.Detail{}
	}
	doubted, silence, wait := k.doubt.Reason != reason.None, now-k.heard, q.patience()
	switch {
	case doubted && k.asked >= doubtProbes:
		q.lose(now)
		return
	case doubted:
	case wait == 0:
		return // nobody wants to know
	case silence < wait:
		k.at = k.heard + wait
		return
	case k.asked >= silentProbes && silence >= q.p.PeerTimeout:
		q.lose(now)
		return
	}
	if k.asked == 0 {
		k.began = now
	}
	k.asked = min(k.asked, 254) + 1
	k.ask = true
	k.at = now + wait
}

// lose gives up a peer that is gone.
func (q *QP) lose(now time.Duration) {
	d := q.alive.doubt
	if d.Reason == reason.None {
		d = reason.Detail{Reason: reason.PeerSilent, Expected: uint64(q.p.PeerTimeout.Milliseconds()), Found: uint64((now - q.alive.heard).Milliseconds())}
	}
	if r := &q.req; r.head != r.end {
		r.fail(queue.RetryExcErr, d)
	} else {
		q.refuse(d)
		q.enterErr(d, queue.RetryExcErr)
		q.resp.stop()
	}
	q.p.Host.Event(q.p, machine.EventQPFatal, d)
}

// probe produces the packet that asks.
func (q *QP) probe(out *machine.Out) bool {
	if q.alive.ask = false; q.p.Attr.State != qp.RTS && q.p.Attr.State != qp.SQD {
		return false
	}
	a := &q.p.Attr
	out.BTH = ib.BTH{Opcode: ib.RCSendOnly, DestQPN: a.DestQPN, PSN: q.req.before(), AckReq: true}
	out.Path = &a.Path
	out.Pieces, out.Len = out.Pieces[:0], 0
	q.refuse(reason.Detail{Reason: reason.PeerProbe, Expected: uint64(q.patience().Milliseconds()), Found: uint64(q.alive.asked)})
	return true
}

// answersProbe reports whether an acknowledge of sequence number e, which acknowledges
// nothing new, is the answer to a probe. Linux's rxe acknowledges a duplicate by the last
// SEND or WRITE that it has executed, and before the first one by PSN 0xffffff or by what
// an earlier connection of its queue pair left. So until this end has had an answer of
// the connection, which teaches the peer's port, any PSN will do.
func (q *QP) answersProbe(now time.Duration, e uint32) bool {
	if q.alive.asked == 0 || e != q.req.una-1 && q.origins[ofAnswers].Known() {
		return false
	}
	q.alive.heard = now
	return true
}

// Unreachable implements machine.Doubter: a hint that has the peer asked at once. Only
// what says that nobody listens counts: hosts and networks that cannot be reached may
// be back soon, which retries and PeerTimeout bear.
func (q *QP) Unreachable(now time.Duration, h *ib.BTH, d reason.Detail) bool {
	if q.p.Attr.State != qp.RTS && q.p.Attr.State != qp.SQD || !q.underWay(h) {
		return false
	}
	if d.Reason == reason.SendRefused && q.alive.doubt.Reason == reason.None {
		q.alive.doubt, q.alive.asked, q.alive.at = d, 0, now
	}
	return true
}

// underWay reports whether a packet with this header may have been sent just now.
func (q *QP) underWay(h *ib.BTH) bool {
	info := h.Opcode.Info()
	if info == nil || h.Opcode.Transport() != ib.RC {
		return false
	}
	if isAnswer(info.Kind) {
		back := q.resp.expected.Sub(h.PSN)
		return back > 0 && back <= answerSpan
	}
	e := q.req.sequence(h.PSN)
	return !before(e, q.req.una-1) && before(e, q.req.max)
}
