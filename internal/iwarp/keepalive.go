package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A keepalive finds out whether a silent peer is still there (machine.Port.PeerTimeout).
// TCP's keep-alive cannot tell: the system answers it for a process that is stopped.
//
// The probe is a READ of no bytes, which the peer's device answers by itself. It is the
// message that begins peer-to-peer connections (RFC 6581 9.2). Its keys name no memory:
// Linux's siw looks at none for a READ of no bytes, and Chelsio's driver sends such
// READs with a constant. It takes one of the READs that the ends agreed on, so it is sent only
// while none is outstanding; otherwise the answers to those READs tell as much. A peer
// that serves no READs, or did not say that it does (revision 1), is not asked.
type keepalive struct {
	heard time.Duration // when the last bytes came
	began time.Duration // when the first probe interval without an answer began
	at    time.Duration // the next look at the clock
	asked uint8         // probe intervals that began without an answer
	ask   bool          // a probe is to be sent
	full  bool          // the socket did not take all that was due
}

// startKeepalive begins with full operation.
func (q *QP) startKeepalive(now time.Duration) {
	q.alive = keepalive{heard: now, at: machine.Never}
	if q.p.PeerTimeout > 0 && q.a.ORD > 0 && q.s.servesReads() {
		q.alive.at = now + q.p.ProbeInterval()
	}
}

// servesReads reports whether the peer has told how many READs it serves (RFC 6581 9.1).
func (s *Stream) servesReads() bool {
	return s.enhanced() && s.request.enhanced.IRD != iwarp.DepthUnknown
}

// watchAt is when a silent peer is looked at.
func (s *Stream) watchAt() time.Duration {
	if s.state != operating || s.q == nil {
		return machine.Never
	}
	return s.q.alive.at
}

// watch asks the peer, waits on, or gives it up.
func (q *QP) watch(now time.Duration) {
	k := &q.alive
	due := k.at
	k.at = machine.Never
	if st := q.p.Attr.State; st != qp.RTS && st != qp.SQD {
		return
	}
	if q.rx.stall.on || q.held {
		// This end does not read, or may not ask yet.
		k.heard = now
	}
	if k.heard >= k.began {
		k.asked, k.ask = 0, false
	}
	silence, wait := now-k.heard, q.p.ProbeInterval()
	switch {
	case silence < wait:
		k.at = k.heard + wait
		return
	case q.p.Silent(silence, k.asked) && now-due < wait:
		// A look that is later than this is this process's own pause.
		q.forsake(now)
		return
	}
	if k.asked == 0 {
		k.began = now
	}
	k.asked = min(k.asked, 254) + 1
	k.ask = q.req.reads == 0
	k.at = now + wait
}

// forsake ends the connection to a peer that is silent for too long.
func (q *QP) forsake(now time.Duration) {
	d := q.p.SilentDetail(now - q.alive.heard)
	s := q.s
	q.lose(now, d, true)
	s.abort(d)
}

// probe builds the READ of no bytes that asks.
func (q *QP) probe(out *Out) bool {
	if !q.req.sendEmptyRead(out) {
		return false
	}
	q.alive.ask = false
	q.refuse(reason.Detail{Reason: reason.PeerProbe, Expected: uint64(q.p.ProbeInterval().Milliseconds()), Found: uint64(q.alive.asked)})
	return true
}
