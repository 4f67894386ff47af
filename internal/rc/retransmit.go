package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// retransmit produces the first packet that counts as lost, alone: a segment of a SEND or
// WRITE, an atomic, or a READ of what is missing, which a responder takes for a duplicate
// of a part (IBTA 9.7.5.1).
func (r *recovery) retransmit(now time.Duration, out *machine.Out) bool {
	b := r.loss.board
	i := b.FirstLost()
	if i < 0 {
		return false
	}
	h := b.Holes[i]
	at := r.find(h.First)
	w := &r.requests[at]
	n := uint32(1)
	switch {
	case w.read():
		end := seq.Min(h.End, w.last+1)
		executed := !seq.Before(b.Executed, w.last+1)
		if !executed {
			// The request itself may be lost, and no part can stand for it.
			h.First, end = w.first, w.last+1
		}
		n = end - h.First
		if h.Answer && !out.Whole && r.sender.fetchPaced(now) {
			return false // all that was lost to a full queue would overflow it again
		}
		r.askFor(w, at, h.First, n, out)
		if h.Tries == 0 && !executed {
			r.copyLater(w, out)
		}
	case w.atomic():
		r.askFor(w, at, h.First, 1, out)
	default:
		if f := r.sender.flight(); f > 0 && f+int64(r.mtu+overhead) > r.sender.limit() {
			return false
		}
		if !r.segmentAgain(w, at, h.First, out) {
			return false
		}
	}
	r.q.c.Refuse(reason.Detail{Reason: reason.PacketRepeated, Expected: seq.Detail(r.una), Found: seq.Detail(h.First)})
	r.retry.all++
	b.SentAgain(now, h.First, h.First+n, r.nxt)
	if h.Answer && w.read() {
		r.sender.askedAgain(now, n*(r.mtu+overhead))
	}
	if b.Lost == 0 {
		out.AckReq = true
	}
	r.loss.at = min(r.loss.at, now+min(r.answerTime(&r.trips.acks), r.answerTime(&r.trips.answers)))
	if r.retry.ackAt == machine.Never {
		r.armAckTimer(now)
	}
	return true
}

// segmentAgain produces the packet of a SEND or WRITE that has sequence number e.
func (r *recovery) segmentAgain(w *request, at, e uint32, out *machine.Out) bool {
	off := (e - w.first) << r.mtuShift
	r.sender.gather.Restart()
	n := min(w.length-off, r.mtu)
	seg := r.sender.shape(w, off, n)
	ok := r.sender.fill(w, at, off, n, seg, out)
	if seg&segLast != 0 && ok {
		r.sender.endMessage(w, at, out)
	}
	r.sender.gather.Restart()
	out.PSN = psn.New(e)
	return ok
}

// askFor produces a request for n answers to a READ or atomic from sequence number e on.
func (r *recovery) askFor(w *request, at, e, n uint32, out *machine.Out) {
	off := (e - w.first) << r.mtuShift
	length := uint32(0)
	w.state |= repeated
	if w.read() {
		length = min(n<<r.mtuShift, w.length-off)
	}
	r.sender.question(w, at, off, length, out)
	out.PSN = psn.New(e)
}
