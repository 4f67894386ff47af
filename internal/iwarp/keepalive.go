package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A keepalive checks whether a silent peer is alive (machine.Port.PeerTimeout). TCP's
// keep-alive cannot do that: the system answers it for a stopped process.
//
// The probe is a READ of no bytes, which the peer's device answers by itself. It is the
// message that begins peer-to-peer connections (RFC 6581 9.2). Its keys name no memory:
// Linux's siw checks none for a READ of no bytes, and Chelsio's driver sends such READs with a
// constant. It counts as one of the READs that the ends agreed on, so it is sent only while
// none is outstanding; otherwise the answers to those READs prove that the peer is alive. A
// peer that serves no READs, or did not say that it does (revision 1), is not probed.
type keepalive struct {
	heard  time.Duration // when the last bytes came
	began  time.Duration // when the first probe interval without an answer began
	at     time.Duration // when to check next
	probes uint8         // probe intervals that began without an answer
	wanted bool          // a probe must be sent
	full   bool          // the socket did not accept everything
}

// startKeepalive starts the keepalive of an established connection.
func (q *QP) startKeepalive(now time.Duration) {
	q.alive = keepalive{heard: now, at: machine.Never}
	if q.p.PeerTimeout > 0 && q.a.ORD > 0 && q.s.setup.ServesReads() {
		q.alive.at = now + q.p.ProbeInterval()
	}
}

// checkAt returns when to check a silent peer.
func (s *Stream) checkAt() time.Duration {
	if s.state != operating || s.q == nil {
		return machine.Never
	}
	return s.q.alive.at
}

// checkPeer sends a probe, waits longer, or fails the connection.
func (q *QP) checkPeer(now time.Duration) {
	k := &q.alive
	due := k.at
	k.at = machine.Never
	if st := q.p.Attr.State; st != qp.RTS && st != qp.SQD {
		return
	}
	if q.rx.stall.on || q.held {
		// This end does not read, or must not send yet.
		k.heard = now
	}
	if k.heard >= k.began {
		k.probes, k.wanted = 0, false
	}
	silence, wait := now-k.heard, q.p.ProbeInterval()
	switch {
	case silence < wait:
		k.at = k.heard + wait
		return
	case q.p.Silent(silence, k.probes) && now-due < wait:
		// If the check is late, this process itself paused.
		q.peerGone(now)
		return
	}
	if k.probes == 0 {
		k.began = now
	}
	k.probes = min(k.probes, 254) + 1
	k.wanted = q.req.reads == 0
	k.at = now + wait
}

// peerGone ends the connection to a peer that was silent for too long.
func (q *QP) peerGone(now time.Duration) {
	d := q.p.SilentDetail(now - q.alive.heard)
	s := q.s
	q.lose(now, d, true)
	s.abort(d)
}

// sendProbe builds the probe.
func (q *QP) sendProbe(out *Out) bool {
	if !q.req.sendEmptyRead(out) {
		return false
	}
	q.alive.wanted = false
	q.refuse(reason.Detail{Reason: reason.PeerProbe, Expected: uint64(q.p.ProbeInterval().Milliseconds()), Found: uint64(q.alive.probes)})
	return true
}
