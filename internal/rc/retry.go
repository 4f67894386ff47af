package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/pathmtu"
	"softrdma/internal/queue"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// retry is the state of the acknowledgement timer and of the retry counter (IBTA
// 9.7.6.1.3, 9.9.2).
type retry struct {
	ackAt   time.Duration // the peer's answer is due
	retries uint8         // retransmissions without progress
	implied bool          // one of them was for an implied NAK
	certain bool          // the peer said that it did not take what is being sent again
	doubled uint8         // how often the timeout is doubled until a round trip is measured
	all     uint32        // decisions to send packets again
}

// longestTimeout bounds the doubling of the timeout for a peer that answers late.
const longestTimeout = 4 * time.Second

// armAckTimer starts the acknowledgement timer. The first wait is the timeout of the
// queue pair. The standard allows up to four times as much (IBTA 9.7.6.1.3), so
// repetitions wait twice and four times as long: more of the same does not help an
// overloaded peer or network. The last wait before the end is four times as long, too, so
// that a peer that gets no processor for a moment is not taken for gone.
func (r *recovery) armAckTimer(now time.Duration) {
	if d := r.ackTimeoutOfPath(); d != 0 {
		times := r.retry.retries
		if r.retry.certain && times > 0 {
			times-- // for a NAK, which the peer has answered in time
		}
		times = max(min(times, 2), r.retry.doubled)
		if r.retry.retries >= r.p.Attr.RetryCnt {
			times = max(times, 2)
		}
		r.retry.ackAt = now + d<<times
	}
	r.armTailProbe(now)
}

// ackTimeoutOfPath is the timeout of the queue pair, or longer on a path that is too long for it. The
// answer to a tail loss probe must be able to come first. This deviates from IBTA 9.7.6.1.3, which allows
// four times the timeout at most: a requester that does not wait for the answers sends all packets again
// for each of them, and completes almost nothing.
func (r *recovery) ackTimeoutOfPath() time.Duration {
	d := r.p.Attr.AckTimeout()
	if d != 0 && r.trips.least() > d/4 {
		d = max(d, r.tailProbeTime()+r.answerTime(r.slower()))
	}
	return d
}

// doubleTimeout follows the end of the timer. An answer to what was sent before the timeout may still come,
// on a path that is longer than that. No round trip can be measured then, since everything is sent again
// before it is answered. So the timeout stays doubled until one is (RFC 6298, 5.5), and is doubled further
// if there were answers meanwhile.
func (r *recovery) doubleTimeout() {
	t := &r.retry
	if t.doubled < 2 || t.retries == 0 && r.ackTimeoutOfPath()<<t.doubled < longestTimeout {
		t.doubled++
	}
}

// progress follows news from the peer: the retry counters start again, and so does the
// timer while anything is unanswered (IBTA 9.9.2, 9.7.6.1.3).
func (r *recovery) progress(now time.Duration) {
	r.retry.retries, r.retry.implied, r.rnr.retries, r.tail.sent = 0, false, 0, 0
	r.report(now)
	r.retry.ackAt, r.tail.at = machine.Never, machine.Never
	switch {
	case seq.Before(r.una, r.nxt):
		r.armAckTimer(now)
	case seq.Before(r.nxt, r.una):
		r.goBack() // the peer has answered more than was sent again so far
	}
}

// expire acts on the timers that are due.
func (r *recovery) expire(now time.Duration) {
	if r.rnr.until <= now {
		r.rnr.until = machine.Never
	}
	if r.loss.at <= now {
		r.loss.at = machine.Never
		if r.loss.board != nil {
			r.detectLoss(now)
		}
	}
	if r.tail.at <= now {
		r.tail.at = machine.Never
		if r.una != r.nxt && r.rnr.until == machine.Never {
			r.tail.wanted = true
			if r.tail.sent++; r.tail.sent > narrowTries {
				suspectPath(r.q, now, &r.requests[r.sq.Head])
			}
		}
	}
	if r.retry.ackAt <= now {
		r.ackTimeout(now)
	}
}

// ackTimeout acts on the end of the acknowledgement timer.
func (r *recovery) ackTimeout(now time.Duration) {
	r.retry.ackAt = machine.Never
	if r.una == r.nxt {
		return
	}
	r.retry.implied = false
	r.doubleTimeout()
	r.q.ctl.Timeout(now)
	if r.reads.ctl != nil {
		r.reads.ctl.Timeout(now)
	}
	if r.retry.retries > 0 {
		suspectPath(r.q, now, &r.requests[r.sq.Head])
	}
	r.retransmitAll(reason.Detail{Reason: reason.AckTimeout, Expected: uint64(r.p.Attr.RetryCnt), Found: uint64(r.retry.retries) + 1})
}

// impliedNAK acts on an answer that skips an unanswered READ or atomic: the response to
// that one was lost, and is asked for again without waiting for the timer (IBTA 9.7.6).
// Every later response implies the same NAK; only the first one counts.
func (r *recovery) impliedNAK(now time.Duration, e uint32) {
	d := reason.Detail{Reason: reason.ResponseGap, Expected: seq.Detail(r.una), Found: seq.Detail(e)}
	if r.retry.implied || r.una == r.nxt {
		r.q.c.Refuse(d)
		return
	}
	r.retry.implied = true
	r.lostPacket(now)
	r.sender.keepLeftover(now)
	r.retransmitAll(d)
}

// lostPacket tells the congestion control of one lost packet.
func (r *recovery) lostPacket(now time.Duration) {
	if r.reads.ctl != nil && !r.sq.Idle() && r.requests[r.sq.Head].responds() {
		r.reads.ctl.Lost(now, int(r.mtu+overhead), &r.trips.answers)
		return
	}
	r.q.ctl.Lost(now, int(r.mtu+overhead), &r.trips.acks)
}

// unanswered returns why the retries were used up.
func (r *recovery) unanswered() reason.Detail {
	if n := r.q.narrow; n != nil && n.search.State() == pathmtu.Narrow { // short packets are answered
		return n.detail(r.q)
	}
	why := reason.RetryExceeded
	if !r.q.origins[ofAnswers].Known() {
		why = reason.NeverAnswered
	}
	return reason.Detail{Reason: why, Expected: uint64(r.p.Attr.RetryCnt), Found: uint64(r.retry.retries) + 1}
}

// retransmitAll goes back to the oldest unanswered packet, or gives up. NAKs for sequence
// errors, implied NAKs and timeouts count against one retry counter (IBTA 9.9.2).
func (r *recovery) retransmitAll(d reason.Detail) {
	r.q.c.Refuse(d)
	if r.retry.retries >= r.p.Attr.RetryCnt {
		r.completer.fail(queue.RetryExcErr, r.unanswered())
		return
	}
	r.retry.retries++
	r.retry.all++
	r.goBack()
}

// goBack sends everything again from the oldest unanswered packet on (go-back-N).
func (r *recovery) goBack() {
	r.closeBoard()
	r.trips.timing, r.retry.certain, r.retry.ackAt = false, false, machine.Never
	r.tail.wanted, r.tail.at = false, machine.Never
	r.sender.rewind()
}
