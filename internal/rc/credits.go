package rc

import (
	"time"

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
func (r *sender) credited(now time.Duration, s ib.Syndrome) {
	n, ok := s.Credits()
	if !ok {
		n = noLimit
	}
	r.credits.limit = n
	if n > 0 {
		return
	}
	r.credits.trialAt = now + minTrialWait
	if r.q.c.Selective() {
		r.credits.trialAt = now + maxTrialWait
	}
}

// trial notes what the refusal of a message costs.
func (c *credits) trial(rnr ib.Syndrome) { c.noWait = rnr.RNRTimer() < minTrialWait }

// receivable reports whether the peer has a receive for one more message.
func (r *sender) receivable(now time.Duration) bool {
	c := &r.credits
	switch {
	case r.hasCredit():
		return true
	case c.inFlight > 0:
		return false // its acknowledge brings credits
	case now < c.trialAt:
		r.q.paceAt = min(r.q.paceAt, c.trialAt)
		return false
	}
	return true
}

// hasCredit reports whether credits, or what is known of the peer, allow one more message now.
func (r *sender) hasCredit() bool {
	c := &r.credits
	return c.inFlight < c.limit || c.noWait || r.recovery.trips.acks.Least() > creditPath
}

// quietCredits is the number of messages in flight from which on an acknowledge is
// requested, so that it brings credits before they are used up. A sender that has more
// to send requests one early. One that waits for the peer after each message does not,
// as each acknowledge costs both ends a packet.
func (r *sender) quietCredits() uint32 {
	n := r.credits.limit
	if r.sq.More() {
		return n / ackShare
	}
	return n - min(n, max(n/(2*ackShare), 1))
}
