package iwarp

import (
	"time"

	"softrdma/internal/machine"
)

// DDP may use TCP to recover from a message without a receive (RFC 5041 7.1): the stream is
// not read until a receive is posted, and the peer's TCP stops sending, as a peer on
// InfiniBand does after an RNR NAK. Many programs post their receives a moment late. A peer
// cannot prolong the stall: the connection ends after stallTimeout.

const (
	stallTimeout = time.Second

	// There is no notification of posted receives, so the stream polls at growing intervals.
	firstPoll = 50 * time.Microsecond
	maxPoll   = 4 * time.Millisecond
)

// A stall is a message's wait for a receive.
type stall struct {
	on       bool
	over     bool          // time limit reached: a message that finds no receive ends the connection
	rest     []byte        // bytes read and not consumed
	since    time.Duration // when it began
	interval time.Duration // time between polls
	pollAt   time.Duration
}

// lacks reports whether a message that consumes a receive has to wait for one.
func (r *receiver) lacks(now time.Duration) bool {
	w := &r.stall
	switch {
	case r.p.RQ == nil:
		return false
	case r.p.RQ.Len() > 0:
		w.over = false
		return false
	case w.over:
		return false
	case !w.on:
		*w = stall{on: true, since: now, interval: firstPoll, pollAt: now + firstPoll}
	}
	return true
}

// Stalled reports whether the socket must not be read because a message waits for a receive.
// Expire ends that.
func (s *Stream) Stalled() bool { return s.receives() && s.q.rx.stall.on }

// pollAt returns when a stalled stream looks for a receive.
func (s *Stream) pollAt() time.Duration {
	if !s.Stalled() {
		return machine.Never
	}
	return s.q.rx.stall.pollAt
}

// pollReceive continues the stream if a receive was posted or the time limit is reached.
func (q *QP) pollReceive(now time.Duration) {
	r := &q.rx
	w := &r.stall
	w.over = now-w.since >= stallTimeout
	if !w.over && r.p.RQ.Len() == 0 {
		w.interval = min(2*w.interval, maxPoll)
		w.pollAt = min(now+w.interval, w.since+stallTimeout)
		return
	}
	was := *w
	*w = stall{over: was.over}
	if r.phase == inHeader && r.have == r.need {
		if r.header(now, nil); w.on { // another queue pair took the receive
			*w = was
			w.pollAt = now + w.interval
			return
		}
	}
	q.feed(now, was.rest)
}
