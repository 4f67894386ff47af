package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/seq"
)

// overhead is what the headers of a packet count in the window, so that short messages
// fill it as well.
const overhead = 64

// A window counts what is in flight, in bytes of payload and overhead.
type window struct {
	sent, acked uint32 // since the connection began; the difference is in flight
	reported    uint32 // acked as far as the congestion control knows
	early       uint32 // what the control was told of before acked counts it
	sinceAckReq uint32 // sent since an acknowledge was last requested
	lossless    bool   // of the way that packets take now: machine.Out.Lossless
	leftover    leftover
}

// losslessWindow is what may be in flight where nothing can be lost for want of room. The
// congestion window does not apply: it keeps a queue from overflowing. It is several long
// messages, so that the peer has work until the acknowledge of one has woken this side.
const losslessWindow = 4 << 20

// longWindow is what may be in flight on a long path, if the peer's reorder memory allows it.
const longWindow = 1 << 30

// limit is how many bytes may be in flight.
func (r *sender) limit() int64 {
	if r.window.lossless {
		return losslessWindow
	}
	w := r.q.ctl.Window()
	if w > r.p.Window && !r.q.c.Selective() {
		w = r.p.Window // a standard peer makes this side send everything again for one loss
	}
	return int64(w)
}

// fits reports whether n PSNs and cost bytes may be added to what is in flight. A single
// packet fits into any window. With nothing in flight so does a READ of any length.
func (r *sender) fits(now time.Duration, n, cost uint32) bool {
	ahead := r.nxt - r.una
	if all := ahead + n; all > r.span && (all > maxInFlight || ahead != 0 && r.reads.outstanding == 0 && r.q.c.Selective()) {
		return false
	}
	flight := r.flight()
	if flight == 0 {
		return true
	}
	free := r.limit() - flight - int64(cost)
	if free >= 0 && r.window.leftover.bytes > 0 {
		free -= r.window.leftover.left(now)
		if free < 0 {
			r.q.paceAt = min(r.q.paceAt, now+leftoverQuantum)
		}
	}
	return free >= 0
}

// wantsMore reports whether the peer is to hold more than usual. It takes a round trip until it
// does, so the window is let grow meanwhile.
func (r *sender) wantsMore() bool {
	base := conn.Span(r.mtu)
	wants := r.q.c.Selective() && !r.window.lossless && r.limit() > int64(base)*int64(r.mtu+overhead)/wantFrom
	if !wants {
		r.span = base
	}
	return wants
}

// wantFrom is the part of the usual span from which on more is asked for.
const wantFrom = 8

// widened takes what the peer holds.
func (r *sender) widened(span uint32) {
	if r.q.paces {
		r.span = min(max(span, conn.Span(r.mtu)), conn.MaxSpan)
	}
}

// admits reports whether all queue pairs to the peer together may have n bytes more in
// flight, in either direction.
func (r *sender) admits(n uint32) bool {
	return r.window.lossless || r.p.Admits(r.flight()+int64(r.reads.due)+int64(n), r.recovery.trips.least())
}

// InFlight implements machine.InFlightReporter. What was sent to a peer that does not answer does
// not count any more, as others share the path.
func (q *QP) InFlight() int64 {
	r := &q.req
	if s := q.c.Port.Attr.State; s != qp.RTS && s != qp.SQD || r.recovery.retry.retries > 0 || r.recovery.tail.sent > 0 || r.recovery.rnr.until != machine.Never {
		return 0
	}
	return r.flight() + int64(r.reads.due)
}

// flight is what is in flight: sent, not acknowledged, not known to have arrived behind
// something missing, and not given up as lost.
func (r *sender) flight() int64 {
	f := int64(r.window.sent - r.window.acked)
	b := r.recovery.loss.board
	if b == nil || f == 0 {
		return f
	}
	all := int64(r.nxt - r.una)
	away := int64(b.High-r.una-b.Missing) + int64(b.Lost)
	return f * max(all-away, 0) / all
}

func (r *sender) limits() congestion.Limits {
	l := congestion.Limits{Window: r.p.Window, Packet: int(r.mtu + overhead), Tuning: r.q.tuned}
	if r.q.c.Selective() || r.q.announces() {
		l.Long = longWindow
	}
	return l
}

// keepWindow makes the controls again for a standard peer, whose recovery a long window would
// overtax. This is its first answer, so they know nothing yet.
func (q *QP) keepWindow() {
	q.control(q.req.limits())
	if r := &q.req.reads; r.ctl != nil {
		r.ctl = congestion.NewFetch(q.kind, q.req.limits())
	}
}

// report tells the congestion controls what has arrived since the last report.
func (r *recovery) report(now time.Duration) {
	if r.trips.timing && seq.Before(r.trips.timed, r.una) {
		r.sample(now)
	}
	took, readTook := r.trips.took, r.trips.readTook
	r.trips.took, r.trips.readTook = 0, 0
	w := &r.window
	answered := readTook > 0
	if w.lossless {
		took, readTook = 0, 0 // they show how long the peer waits for a processor, not a path
	}
	n := w.acked - w.reported
	w.reported = w.acked
	early := min(n, w.early)
	w.early -= early
	if n -= early; n > 0 || took > 0 {
		r.q.ctl.Acked(now, int(n), took, &r.trips.acks)
		r.q.paces = r.q.ctl.Paces()
		if r.q.kind == congestion.HPCC {
			r.noteUninformed()
		}
	}
	if r.reads.brought > 0 {
		r.reads.ctl.Acked(now, int(r.reads.brought), readTook, &r.trips.answers)
		r.reads.brought = 0
		if answered {
			r.q.req.answered()
		}
	}
}

// A leftover is what was in flight when the requester went back to the oldest packet.
// The peer drops it silently, but it takes its place on the path as before. It
// decreases to nothing in the course of a round trip.
type leftover struct {
	bytes int64
	at    time.Duration
	trip  time.Duration
}

// leftoverQuantum is how long to wait until less of it is left.
const leftoverQuantum = 50 * time.Microsecond

// left is what is still in flight.
func (l *leftover) left(now time.Duration) int64 {
	passed := now - l.at
	if passed >= l.trip {
		l.bytes = 0
		return 0
	}
	return l.bytes - int64(float64(l.bytes)*float64(passed)/float64(l.trip))
}

// keepLeftover notes what is in flight before everything is sent again. If all of it was
// sent again at once, a queue that overflowed would overflow again.
func (r *sender) keepLeftover(now time.Duration) {
	if !r.recovery.trips.acks.Known() {
		return
	}
	left := r.flight()
	if r.window.leftover.bytes > 0 {
		left += r.window.leftover.left(now)
	}
	r.window.leftover = leftover{bytes: min(left, int64(r.q.ctl.Window())), at: now, trip: r.recovery.trips.acks.Smoothed()}
}

// nakOfLeftover reports whether a NAK comes so soon after what is missing was sent again
// that it must be of the packets that were in flight before.
func (r *recovery) nakOfLeftover(now time.Duration) bool {
	return r.retry.certain && now-r.window.leftover.at < r.trips.acks.Least()*3/4
}
