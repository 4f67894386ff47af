package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// End-to-end credits (IBTA 9.7.7.2): an acknowledge reports how many receives are
// posted at the responder, and a requester has no more messages in flight that
// consume one. Without credits a sender of short messages overruns the receiver, and
// all packets after the RNR NAK are dropped and sent again.

// credits is the requester's side.
type credits struct {
	inFlight uint32        // messages that take a receive, sent and not completed
	limit    uint32        // how many of them there may be
	trialAt  time.Duration // when one is tried although limit is 0
	noWait   bool          // the peer's RNR timer is short: a trial costs less than waiting
}

const (
	noLimit = 1<<32 - 1

	// creditPath is the longest round trip on which a requester obeys credits. On a
	// longer one most of what is in flight is in the network, and receives are posted by
	// the time that it arrives.
	creditPath = longTrip

	// The peer may post receives without notice, so one message may always be tried (IBTA
	// 9.7.7.2.5). A short wait first costs less than an RNR NAK. A softrdma peer
	// announces new receives, so the wait is longer.
	minTrialWait = 50 * time.Microsecond
	maxTrialWait = 500 * time.Microsecond
)

// credited takes the credits of an acknowledge.
func (r *requester) credited(now time.Duration, s ib.Syndrome) {
	n, ok := s.Credits()
	if !ok {
		n = noLimit
	}
	r.credits.limit = n
	if n > 0 {
		return
	}
	r.credits.trialAt = now + minTrialWait
	if r.q.selective() {
		r.credits.trialAt = now + maxTrialWait
	}
}

// trial notes what the refusal of a message costs.
func (c *credits) trial(rnr ib.Syndrome) { c.noWait = rnr.RNRTimer() < minTrialWait }

// receivable reports whether the peer has a receive for one more message.
func (r *requester) receivable(now time.Duration) bool {
	c := &r.credits
	switch {
	case c.inFlight < c.limit, c.noWait, r.trips.acks.Least() > creditPath:
		return true
	case c.inFlight > 0:
		return false // its acknowledge brings credits
	case now < c.trialAt:
		r.q.paceAt = min(r.q.paceAt, c.trialAt)
		return false
	}
	return true
}

// quietCredits is the number of messages in flight from which on an acknowledge is
// requested, so that it brings credits before they are used up. A sender that has more
// to send requests one early. One that waits for the peer after each message does not,
// as each acknowledge costs both ends a packet.
func (r *requester) quietCredits() uint32 {
	n := r.credits.limit
	if r.sq.More() {
		return n / ackShare
	}
	return n - min(n, max(n/(2*ackShare), 1))
}

// announcement is the responder's side. A responder that reported no credits sends an
// unsolicited acknowledge when receives have been posted (IBTA 9.7.7.2.5). It is not
// notified of posted receives, so it polls, less often the longer there are none.
type announcement struct {
	exhausted bool          // the peer was just told that no receive is posted
	at        time.Duration // when to look for receives posted since
	wait      time.Duration
}

const (
	firstPoll = 20 * time.Microsecond
	lastPoll  = 5 * time.Millisecond
)

// creditCount is the credit field of an acknowledge: the receives that are posted. A
// shared receive queue has no credits, as no connection owns its receives. A standard
// peer gets none: Linux does not use credits, and a peer that does would wait for
// receives whose posting is not announced.
func (r *responder) creditCount() ib.Syndrome {
	if !r.q.selective() || r.p.RQ == nil || r.p.RQ.Shared() {
		return ib.ACKNoCredits
	}
	n := r.p.RQ.Len()
	if r.taken {
		n++ // the requester counts the message that has it
	}
	r.posted.exhausted = n == 0
	return ib.Credits(n)
}

// pollReceives starts to look for receives after an acknowledge without credits.
func (r *responder) pollReceives(now time.Duration) {
	r.posted = announcement{at: now + firstPoll, wait: firstPoll}
}

// announceReceives announces receives that were posted since an acknowledge without
// credits.
func (r *responder) announceReceives(now time.Duration) {
	a := &r.posted
	a.at = machine.Never
	switch {
	case !r.q.selective() || r.p.RQ == nil:
	case r.p.RQ.Len() > 0:
		r.sack.due = true
	case a.wait < lastPoll:
		a.wait *= 2
		a.at = now + a.wait
	}
}
