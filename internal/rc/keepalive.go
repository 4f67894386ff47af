package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	// unreachableProbes is the number of probes to a peer that the network reports as
	// unreachable. They are at least unreachableWait apart, and together take at least
	// the time in which an answer is due, so a peer that is alive answers one of them.
	unreachableProbes = 8
	unreachableWait   = 100 * time.Millisecond

	// answerSpan is how far behind the current PSN an answer that the network quotes
	// may be.
	answerSpan = 4096
)

// A keepalive checks whether the peer is alive: when the peer has been silent for a
// while (machine.Port.PeerTimeout), or when the network reports it as unreachable.
//
// A probe is a duplicate request: an empty SEND with the PSN before the oldest
// unacknowledged one. A responder acknowledges duplicates of SENDs without executing
// them or looking at keys, rights and receives (IBTA 9.7.5.1.1, C9-105), so the probe
// uses no PSN and changes nothing at either end. Linux's rxe and adapters answer it.
type keepalive struct {
	heard       time.Duration // when the last answer to a probe arrived; for other packets see QP.heard
	began       time.Duration // when the first unanswered probe was sent
	at          time.Duration // when to check next
	probes      uint8         // probes without an answer
	wanted      bool          // a probe is to be sent
	unreachable reason.Detail // what the network reported about the peer, None for nothing
}

// startKeepalive starts the keepalive of an established connection.
func (q *QP) startKeepalive(now time.Duration) {
	q.alive = keepalive{heard: now, at: machine.Never}
	if q.c.Port.PeerTimeout > 0 {
		q.alive.at = now + q.probeInterval()
	}
}

// probeInterval is shorter after a report of the network.
func (q *QP) probeInterval() time.Duration {
	d := q.c.Port.ProbeInterval()
	if q.alive.unreachable.Reason == reason.None {
		return d
	}
	wait := max(unreachableWait, q.c.Port.Attr.AckTimeout()/unreachableProbes)
	if d > 0 {
		wait = min(wait, d)
	}
	return wait
}

// checkPeer sends a probe, waits longer, or fails the connection.
func (q *QP) checkPeer(now time.Duration) {
	k := &q.alive
	k.at, k.heard = machine.Never, max(k.heard, q.heard)
	if !q.mayProbe() {
		return
	}
	if k.probes > 0 && k.heard > k.began {
		k.probes, k.unreachable = 0, reason.Detail{}
	}
	reported, silence, wait := k.unreachable.Reason != reason.None, now-k.heard, q.probeInterval()
	switch {
	case reported && k.probes >= unreachableProbes:
		q.peerGone(now)
		return
	case reported:
	case wait == 0:
		return // no PeerTimeout
	case silence < wait:
		k.at = k.heard + wait
		return
	case q.c.Port.Silent(silence, k.probes):
		q.peerGone(now)
		return
	}
	if k.probes == 0 {
		k.began = now
	}
	k.probes = min(k.probes, 254) + 1
	k.wanted = true
	k.at = now + wait
}

// peerGone fails the connection.
func (q *QP) peerGone(now time.Duration) {
	d := q.alive.unreachable
	if d.Reason == reason.None {
		d = q.c.Port.SilentDetail(now - q.alive.heard)
	}
	if r := &q.req; !r.sq.Idle() {
		r.completer.fail(queue.RetryExcErr, d)
	} else {
		q.c.Refuse(d)
		q.c.EnterErr(d, queue.RetryExcErr)
		q.resp.Stop()
	}
	q.c.Port.Host.Event(q.c.Port, machine.EventQPFatal, d)
}

// sendProbe produces a probe packet.
func (q *QP) sendProbe(out *machine.Out) bool {
	q.alive.wanted = false
	if !q.mayProbe() {
		return false
	}
	a := &q.c.Port.Attr
	out.BTH = ib.BTH{Opcode: ib.RCSendOnly, DestQPN: a.DestQPN, PSN: q.req.before(), AckReq: true}
	out.Path = &a.Path
	out.Pieces, out.Len = out.Pieces[:0], 0
	q.c.Refuse(reason.Detail{Reason: reason.PeerProbe, Expected: uint64(q.probeInterval().Milliseconds()), Found: uint64(q.alive.probes)})
	return true
}

// answersProbe reports whether an acknowledge of sequence number e that acknowledges
// nothing new answers a probe. Linux's rxe acknowledges a duplicate with the last SEND
// or WRITE that it has executed. Before the first one it uses PSN 0xffffff, or the PSN
// of an earlier connection of its queue pair. So any PSN is accepted until the first
// answer on this connection, from which the peer's port is learned.
func (q *QP) answersProbe(now time.Duration, e uint32) bool {
	if !q.probed() || e != q.req.una-1 && q.origins[ofAnswers].Known() {
		return false
	}
	q.alive.heard = now
	if q.alive.at == machine.Never {
		q.alive.probes = 0 // there is no check that would do it, see ask
	}
	return true
}

// Unreachable implements machine.UnreachableHandler. The error is a hint that starts
// probing at once. It counts only if the port is closed, or if the peer has ended the
// only path, which leads through memory. An unreachable host or network may be back soon, and
// retries and PeerTimeout cover that case.
func (q *QP) Unreachable(now time.Duration, h *ib.BTH, d reason.Detail) bool {
	if !q.mayProbe() || !q.underWay(h) {
		return false
	}
	if (d.Reason == reason.SendRefused || d.Reason == reason.HostClosed) && q.alive.unreachable.Reason == reason.None {
		q.alive.unreachable, q.alive.probes, q.alive.at = d, 0, now
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
		back := q.resp.Expected().Sub(h.PSN)
		return back > 0 && back <= answerSpan
	}
	e := q.req.sequence(h.PSN)
	return !seq.Before(e, q.req.una-1) && seq.Before(e, q.req.max)
}
