package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
)

const (
	// An acknowledge is requested after one ackShare-th of the window, before a message
	// ends, so that the window moves on within long messages. Each one costs both ends a
	// system call, so they are few.
	ackShare = 4

	// Over a path longer than longTrip the window bounds the rate. A quarter of it would
	// be long in leaving before the window could move.
	longTrip     = 250 * time.Microsecond
	longAckShare = 16

	// quietLength is the longest message that may be sent without an acknowledge request.
	// The tail-loss probe sends it again if no later message requests one.
	quietLength = 256
)

// ackEvery is after how many bytes an acknowledge is requested.
func (r *sender) ackEvery() int64 {
	if r.recovery.trips.acks.Least() > longTrip {
		return r.limit() / longAckShare
	}
	return r.limit() / ackShare
}

// quiet reports whether the message at sq.Cur, whose only packet was just accounted for,
// does not request an acknowledge. The program does not wait for its completion, and a later message
// or the tail-loss probe will request one. If it was the probe, the program's messages are
// too rare for that, and those that follow request their own. A message also requests one if
// the send queue, the window or the peer's receive queue would otherwise fill up.
func (r *sender) quiet(now time.Duration, w *request, seg int) bool {
	switch {
	case seg != segOnly, w.length > quietLength, r.recovery.loss.board != nil,
		r.p.SQSigAll, queue.Flags(w.flags)&queue.Signaled != 0,
		w.takesReceive() && r.credits.inFlight >= r.quietCredits(),
		r.p.SQ.Distance(r.sq.Head, r.sq.Cur) >= r.p.SQ.Depth()/ackShare,
		int64(r.window.sent-r.window.acked) >= r.limit()/ackShare:
		return false
	case r.recovery.tail.rare > 0:
		r.recovery.tail.rare--
		return false
	}
	// Without an acknowledge only the tail-loss probe detects a loss. The retransmission
	// timeout, which is not for a packet that requested nothing (IBTA 9.7.6.1.3), must be
	// much later.
	r.recovery.armTailProbe(now)
	return r.recovery.tail.at != machine.Never && r.recovery.tail.at-now < (r.recovery.retry.ackAt-now)/4
}
