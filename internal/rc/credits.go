package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// End-to-end credits (IBTA 9.7.7.2): an acknowledge reports how many receives are
// posted at the responder, and a requester has no more messages in flight that
// consume one. Without credits a sender of short messages overruns the receiver, and
// all packets after the RNR NAK are dropped and sent again.

// creditPath is the longest round trip on which a requester obeys credits. On a
// longer one most of what is in flight is in the network, and receives are posted by
// the time that it arrives.
const creditPath = longTrip

// credits is the credit count of an acknowledge: the receives that are posted. There
// is none for a shared receive queue, whose receives no connection owns, and none for
// standard peers: Linux's do not use credits, and a peer that does would wait for
// receives whose posting is not announced.
func (r *responder) credits() ib.Syndrome {
	if !r.q.selective() || r.p.RQ == nil || r.p.RQ.Shared() {
		return ib.ACKNoCredits
	}
	n := r.p.RQ.Len()
	if r.taken {
		n++ // the requester counts the message that has it
	}
	r.exhausted = n == 0
	return ib.Credits(n)
}

// A responder that reported no credits sends an unsolicited acknowledge when receives
// have been posted (IBTA 9.7.7.2.5). It is not notified of posted receives, so it
// polls, less often the longer there are none.
const (
	firstRecount = 20 * time.Microsecond
	lastRecount  = 5 * time.Millisecond
)

// recountLater starts the wait behind an acknowledge without credits.
func (r *responder) recountLater(now time.Duration) {
	r.exhausted = false
	r.recountAt, r.recountWait = now+firstRecount, firstRecount
}

// recount announces receives that were posted since an acknowledge without credits.
func (r *responder) recount(now time.Duration) {
	r.recountAt = machine.Never
	switch {
	case !r.q.selective() || r.p.RQ == nil:
	case r.p.RQ.Len() > 0:
		r.tell = true
	case r.recountWait < lastRecount:
		r.recountWait *= 2
		r.recountAt = now + r.recountWait
	}
}

// credited takes note of the credits in an acknowledge.
func (r *requester) credited(now time.Duration, s ib.Syndrome) {
	n, ok := s.Credits()
	if !ok {
		n = unlimited
	}
	if r.room = n; n > 0 {
		return
	}
	r.tryAt = now + leastTry
	if r.q.selective() { // it tells when there are some: see recount
		r.tryAt = now + mostTry
	}
}

// The peer may post receives without notice, so one message may always be tried (IBTA
// 9.7.7.2.5). A short wait first costs less than an RNR NAK.
const (
	leastTry = 50 * time.Microsecond
	mostTry  = 500 * time.Microsecond
)

// trial notes what a refused message costs. A peer whose RNR timer is short wants to
// be tried, which is then quicker than to wait for its credits.
func (r *requester) trial(s ib.Syndrome) { r.cheap = s.RNRTimer() < leastTry }

// receivable reports whether the peer has a receive for one more message.
func (r *requester) receivable(now time.Duration) bool {
	switch {
	case r.taking < r.room, r.cheap, r.rtt.Least() > creditPath:
		return true
	case r.taking > 0:
		return false // its acknowledge will tell
	case now < r.tryAt:
		r.q.paceAt = min(r.q.paceAt, r.tryAt)
		return false
	}
	return true
}

const unlimited = 1<<32 - 1

// takesReceive reports whether the message takes a receive at the peer.
func (w *request) takesReceive() bool {
	switch queue.Op(w.op) {
	case queue.Send, queue.SendImm, queue.SendInv, queue.WriteImm:
		return true
	}
	return false
}
