package rc

import (
	"math"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// rnrForever is the RNR retry count without a limit (IBTA 9.7.5.2.8).
const rnrForever = 7

// An rnrWait is the wait after an RNR NAK. The times of the timer codes are in
// wire/ib.RNRTimer.
type rnrWait struct {
	until   time.Duration // nothing is sent before; machine.Never without a wait
	retries uint8         // RNR NAKs without progress
}

// notReady acts on an RNR NAK of the oldest unanswered packet: nothing is sent until the
// time that the peer asks for has passed (IBTA 9.7.5.2.8).
func (r *recovery) notReady(now time.Duration, s ib.Syndrome) {
	r.tail.wanted = false
	r.sender.credits.trial(s)
	if r.rnr.until != machine.Never || r.nxt == r.una {
		return // a copy of a NAK that was seen
	}
	// The peer answers, so what was lost before was lost on the way and no longer counts
	// as a sign that the peer is gone.
	r.retry.retries = 0
	limit := r.p.Attr.RNRRetry
	r.q.c.Refuse(reason.Detail{Reason: reason.NAKNotReady, Expected: uint64(limit), Found: uint64(r.rnr.retries) + 1})
	if limit != rnrForever && r.rnr.retries >= limit {
		r.completer.fail(queue.RNRRetryExcErr, reason.Detail{Reason: reason.RNRRetryExceeded, Expected: uint64(limit), Found: uint64(r.rnr.retries) + 1})
		return
	}
	r.rnr.retries = min(r.rnr.retries, math.MaxUint8-1) + 1
	r.retry.all++
	r.goBack()
	r.rnr.until = now + s.RNRTimer()
}
