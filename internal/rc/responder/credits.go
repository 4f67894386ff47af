package responder

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// An announcement is the unsolicited acknowledge that tells a peer of new receives, after
// one that reported no credits (IBTA 9.7.7.2.5). The responder is not notified of posted
// receives, so it polls for them, less and less often: the peer may use WRITEs only.
type announcement struct {
	exhausted bool          // the peer was just told that no receive is posted
	at        time.Duration // when to look for receives posted since
	wait      time.Duration // before that; 0 once there were some
}

const (
	firstPoll = 20 * time.Microsecond
	lastPoll  = 5 * time.Millisecond
)

// creditCount is the credit field of an acknowledge: the receives that are posted. A
// shared receive queue has no credits, as no connection owns its receives. A standard
// peer gets none: Linux does not use credits, and a peer that does would wait for
// receives whose posting is not announced.
func (a *answers) creditCount() ib.Syndrome {
	if !a.c.Selective() || a.p.RQ == nil || a.p.RQ.Shared() {
		return ib.ACKNoCredits
	}
	n := a.p.RQ.Len()
	if a.taken {
		n++ // the requester counts the message that has it
	}
	if a.posted.exhausted = n == 0; n > 0 {
		a.posted.at, a.posted.wait = machine.Never, 0
	}
	return ib.Credits(n)
}

// Sent follows each packet that left. After an acknowledge without credits it starts to
// look for receives.
func (a *answers) Sent(now time.Duration) {
	n := &a.posted
	if n.exhausted && n.at == machine.Never {
		n.wait = max(n.wait, firstPoll)
		n.at = now + n.wait
	}
	n.exhausted = false
}

// Deadline is when to look for receives that were posted, or to forget READs.
func (r *Responder) Deadline() time.Duration { return min(r.posted.at, r.first.at, r.keepEnds()) }

// Expire looks for receives that were posted: it announces those since an acknowledge
// without credits, and gives one to the first message if that waits.
func (r *Responder) Expire(now time.Duration) {
	r.forget(now)
	r.look(now)
	a := &r.posted
	if a.at > now {
		return
	}
	a.at = machine.Never
	switch {
	case !r.c.Selective() || r.p.RQ == nil:
	case r.p.RQ.Len() > 0:
		r.sack.due, a.wait = true, 0
	case a.wait < lastPoll:
		a.wait *= 2
		a.at = now + a.wait
	}
}
