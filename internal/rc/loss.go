package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/scoreboard"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// lossDetection decides from the scoreboard which packets are lost, as RACK does for TCP
// (RFC 8985).
type lossDetection struct {
	board      *scoreboard.Board // nil while nothing is missing
	at         time.Duration     // when something late counts as lost
	late       time.Duration     // how late packets have arrived that were not lost
	duplicates uint32            // requests that the peer got twice, as it says
}

// firstReorderWindow stands for a quarter of the round trip before one is known.
const firstReorderWindow = 50 * time.Microsecond

// reorderWindow is how long a packet may be late before it counts as lost: a quarter of
// the round trip, or what the path has shown to take, up to a round trip (RFC 8985, 6.2).
func (r *recovery) reorderWindow() time.Duration {
	least := r.trips.least()
	if least == 0 {
		return firstReorderWindow
	}
	return min(max(r.loss.late, least/4), max(r.trips.acks.Smoothed(), r.trips.answers.Smoothed()))
}

// filled learns from a hole that is filled how late packets may be.
func (r *recovery) filled(now time.Duration, h *scoreboard.Hole) {
	l := &r.loss
	switch {
	case h.State == scoreboard.Pending:
	case h.Tries == 0,
		now-h.Sent < r.trips.least()*3/4: // too early for the repetition: the first one was late
		l.late = max(l.late, (now-h.Seen)*5/4)
	default:
		l.board.RepetitionArrived(h)
		l.late -= l.late / 64
	}
}

// judge completes what is complete, acts on a NAK whose turn has come, and detects losses.
func (r *recovery) judge(now time.Duration) {
	b := r.loss.board
	if front := b.Front(); seq.Before(r.una, front) {
		r.completer.advance(now, front)
	} else {
		r.report(now)
		r.peerAnswers(now)
	}
	if r.loss.board == nil || r.p.Attr.State == qp.Err {
		return
	}
	if s, ok := b.Refused(r.una); ok {
		r.completer.refusedAt(now, r.una, s)
		return
	}
	if len(b.Holes) == 0 && !seq.Before(r.una, b.High) {
		r.closeBoard()
		return
	}
	if len(b.Holes) > scoreboard.MaxHoles {
		r.retransmitAll(reason.Detail{Reason: reason.NAKSequence, Expected: seq.Detail(r.una), Found: seq.Detail(b.High)})
		return
	}
	r.detectLoss(now)
}

// peerAnswers follows an answer that completes nothing. The peer is there, so its timer
// starts again, unless what is missing was sent again too often.
func (r *recovery) peerAnswers(now time.Duration) {
	if holes := r.loss.board.Holes; len(holes) > 0 && holes[0].Tries <= r.p.Attr.RetryCnt {
		r.armAckTimer(now)
	}
}

// detectLoss finds the holes that are late for too long, and when to look again.
func (r *recovery) detectLoss(now time.Duration) {
	b := r.loss.board
	window, ack, answer := r.reorderWindow(), r.answerTime(&r.trips.acks), r.answerTime(&r.trips.answers)
	r.loss.at = machine.Never
	for i := range b.Holes {
		h := &b.Holes[i]
		if h.State == scoreboard.Resent && b.Overtaken(h) {
			h.Seen = now
			b.Move(h, scoreboard.Late)
		}
		var at time.Duration
		switch h.State {
		case scoreboard.Late:
			at = h.Seen + window
		case scoreboard.Resent:
			wait := ack
			if h.Answer {
				wait = answer
			}
			at = h.Sent + wait<<min(h.Tries-1, 4)
		default:
			continue
		}
		if at > now {
			r.loss.at = min(r.loss.at, at)
			continue
		}
		b.Move(h, scoreboard.Lost)
		r.lost(now, h)
	}
}

// lost tells the congestion control of packets that were lost.
func (r *recovery) lost(now time.Duration, h *scoreboard.Hole) {
	if t := &r.trips; t.timing && !seq.Before(t.timed, h.First) && seq.Before(t.timed, h.End) {
		t.timing = false // it would be unknown which transmission the answer is of
	}
	if h.Tries >= narrowTries {
		suspectPath(r.q, now, &r.requests[r.find(h.First)])
	}
	n := int(h.End-h.First) * int(r.mtu+overhead)
	switch w := &r.requests[r.find(h.First)]; {
	case !w.responds():
		r.q.ctl.Lost(now, n, &r.trips.acks)
	case h.Answer:
		r.copies.left = copiesPerLoss
		r.reads.ctl.Lost(now, n, &r.trips.answers)
	default: // the request, one short packet
		r.copies.left = copiesPerLoss
		r.q.ctl.Lost(now, overhead, &r.trips.acks)
	}
}
