package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// rnrForEver is the RNR retry count that never ends (IBTA 9.7.5.2.8).
const rnrForEver = 7

// arm starts the wait for the peer's answer. The standard lets the wait be up to
// four times the timeout that was set (IBTA 9.7.6.1.3). The first wait takes it as
// it is, repetitions the twofold and the fourfold: a peer or a network that is
// overloaded is not helped by more of the same.
func (r *requester) arm(now time.Duration) {
	if d := r.p.Attr.AckTimeout(); d != 0 {
		r.ackAt = now + d<<min(r.retries, 2)
	}
	r.armProbe(now)
}

// progress follows news from the peer: the retry counters start anew, and so
// does the timer while anything is unanswered (IBTA 9.9.2, 9.7.6.1.3).
func (r *requester) progress(now time.Duration) {
	r.retries, r.rnrs, r.probes, r.gapSeen = 0, 0, 0, false
	r.tell(now)
	r.ackAt, r.probeAt = machine.Never, machine.Never
	switch d := int32(r.nxt - r.una); {
	case d > 0:
		r.arm(now)
	case d < 0:
		// The peer has answered more than was sent again so far.
		r.rewind()
	}
}

// tell tells the controls what has arrived since.
func (r *requester) tell(now time.Duration) {
	if r.timing && before(r.timed, r.una) {
		r.sample(now)
	}
	took, readTook := r.took, r.readTook
	r.took, r.readTook = 0, 0
	n := r.acked - r.counted
	r.counted = r.acked
	early := min(n, r.early)
	r.early -= early
	if n -= early; n > 0 || took > 0 {
		r.q.ctl.Acked(now, int(n), took, &r.rtt)
	}
	if r.brought > 0 {
		r.readCtl.Acked(now, int(r.brought), readTook, &r.readRTT)
		r.brought = 0
	}
}

// expire acts on the timers that are due.
func (r *requester) expire(now time.Duration) {
	if r.rnrAt <= now {
		r.rnrAt = machine.Never
	}
	if r.lossAt <= now {
		r.lossAt = machine.Never
		if r.board != nil {
			r.detect(now)
		}
	}
	if r.probeAt <= now {
		r.probeAt = machine.Never
		if r.una != r.nxt && r.rnrAt == machine.Never {
			r.probing, r.probes = true, r.probes+1
		}
	}
	if r.ackAt > now {
		return
	}
	r.ackAt = machine.Never
	if r.una != r.nxt {
		r.gapSeen = false
		r.q.ctl.Timeout(now)
		if r.readCtl != nil {
			r.readCtl.Timeout(now)
		}
		r.repeat(reason.Detail{Reason: reason.AckTimeout, Expected: uint64(r.p.Attr.RetryCnt), Found: uint64(r.retries) + 1})
	}
}

// gap acts on a response that skips an unanswered READ or atomic: that one's
// response was lost, and is asked for again without waiting for the timer
// (IBTA 9.7.6, implied NAK). The responses behind it say so again each;
// only the first counts.
func (r *requester) gap(now time.Duration, e uint32) {
	d := reason.Detail{Reason: reason.ResponseGap, Expected: wire(r.una), Found: wire(e)}
	if r.gapSeen || r.una == r.nxt {
		r.q.refuse(d)
		return
	}
	r.gapSeen = true
	r.lostPacket(now)
	r.spread(now)
	r.repeat(d)
}

// lostPacket tells the control of one packet that was lost.
func (r *requester) lostPacket(now time.Duration) {
	if r.readCtl != nil && r.head != r.end && r.requests[r.head].responds() {
		r.readCtl.Lost(now, int(r.mtu+overhead), &r.readRTT)
		return
	}
	r.q.ctl.Lost(now, int(r.mtu+overhead), &r.rtt)
}

// repeat goes back to the oldest unanswered packet, or gives up
// (IBTA 9.9.2: NAKs for sequence errors, implied NAKs and timeouts count
// against one retry counter).
func (r *requester) repeat(d reason.Detail) {
	r.q.refuse(d)
	if r.retries >= r.p.Attr.RetryCnt {
		r.fail(queue.RetryExcErr, reason.Detail{Reason: reason.RetryExceeded, Expected: uint64(r.p.Attr.RetryCnt), Found: uint64(r.retries) + 1})
		return
	}
	r.retries++
	r.rewind()
}

// notReady acts on an RNR NAK of the oldest unanswered packet: nothing is sent
// until the time that the peer asks for has passed (IBTA 9.7.5.2.8).
func (r *requester) notReady(now time.Duration, s ib.Syndrome) {
	r.probing = false
	r.trial(s)
	if r.rnrAt != machine.Never || r.nxt == r.una {
		return // a copy of one that was seen
	}
	// The peer answers: what was lost before was lost on the way, and counts
	// against its being gone no more.
	r.retries = 0
	limit := r.p.Attr.RNRRetry
	r.q.refuse(reason.Detail{Reason: reason.NAKNotReady, Expected: uint64(limit), Found: uint64(r.rnrs) + 1})
	if limit != rnrForEver {
		if r.rnrs >= limit {
			r.fail(queue.RNRRetryExcErr, reason.Detail{Reason: reason.RNRRetryExceeded, Expected: uint64(limit), Found: uint64(r.rnrs) + 1})
			return
		}
		r.rnrs++
	}
	r.rewind()
	r.rnrAt = now + s.RNRTimer()
}

// rewind sends again from the oldest unanswered packet on (go-back-N).
func (r *requester) rewind() {
	r.nxt = r.una
	r.close()
	r.sent, r.due = r.acked, 0
	r.timing, r.certain, r.probing, r.probeAt = false, false, false, machine.Never
	r.sinceRequest = 0
	r.ackAt = machine.Never
	r.gather.Restart()
	r.off = 0
	sq := r.p.SQ
	for r.cur = r.head; r.cur != r.end; r.cur = sq.Next(r.cur) {
		w := &r.requests[r.cur]
		if w.local() && w.state&done != 0 || !w.local() && int32(w.last-r.una) < 0 {
			continue
		}
		if !w.local() {
			r.off = (r.una - w.first) << r.mtuShift
			w.state |= repeated
		}
		return
	}
}
