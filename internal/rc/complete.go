package rc

import (
	"time"

	"softrdma/internal/queue"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// advance notes that the peer has executed everything before sequence number e, and
// completes requests in the order of posting. It stops at a READ or an atomic that was
// not answered, and reports whether e lies behind it: then its response was lost (IBTA
// 9.7.6, implied NAK).
func (r *completer) advance(now time.Duration, e uint32) (skipped bool) {
	una, head := r.una, r.sq.Head
loop:
	for !r.sq.Idle() {
		w := &r.requests[r.sq.Head]
		switch {
		case w.state&failed != 0:
			r.sq.Free()
			r.fail(r.failure.status, r.failure.detail)
			return false
		case w.local():
			if w.state&done == 0 {
				break loop
			}
		case w.state&started == 0:
			break loop
		case w.responds():
			if r.recovery.loss.board != nil && seq.Before(r.una, e) { // answered, in whatever order
				if r.una = seq.Min(e, w.last+1); r.una == w.last+1 {
					r.window.acked += overhead
				}
			}
			if r.una != w.last+1 {
				skipped = seq.Before(r.una, e)
				break loop
			}
		case !seq.Before(w.last, e): // a part of the message at most
			if seq.Before(r.una, e) {
				r.window.acked += (e - r.una) * (r.mtu + overhead)
				r.una = e
			}
			break loop
		default:
			n := r.una - w.first
			r.window.acked += w.length - n*r.mtu + (w.last+1-r.una)*overhead
			r.una = w.last + 1
		}
		r.complete(w)
	}
	if r.sq.Head != head {
		r.sq.Free()
	}
	if r.una != una {
		r.recovery.progress(now)
	}
	return skipped
}

// complete completes the oldest request with success. The caller frees its slot, unless there
// is a completion: then the slot is free before that can be seen, as a program that counts
// completions may post again at once.
func (r *completer) complete(w *request) {
	if w.responds() {
		r.reads.outstanding--
		if w.state&landed != 0 {
			r.reads.landed--
		}
	}
	if w.takesReceive() {
		r.sender.credits.inFlight--
		r.q.c.Done.CountSend(queue.Op(w.op))
	}
	if !r.p.SQSigAll && queue.Flags(w.flags)&queue.Signaled == 0 {
		r.retire()
		return
	}
	wrid, op, flags, length := r.p.SQ.At(r.sq.Head).WRID, queue.Op(w.op), queue.Flags(w.flags), w.length
	r.retire()
	r.sq.Free()
	r.q.c.Done.Sent(wrid, op, flags, length)
}

// retire removes the oldest request.
func (r *completer) retire() {
	if r.sq.Retire() {
		r.sender.off = 0
		r.sender.gather.Restart()
	}
}

// fail completes the oldest request in error and ends the connection (IBTA 9.9.2,
// 10.10.2.2).
func (r *completer) fail(s queue.Status, d reason.Detail) {
	r.q.c.Refuse(d)
	peer := r.peerReason(s)
	wrid, op := r.p.SQ.At(r.sq.Head).WRID, queue.Op(r.requests[r.sq.Head].op)
	r.q.c.EnterErr(d, s)
	r.q.c.Done.PeerSays(peer)
	r.retire()
	r.sq.Free()
	r.q.c.Done.SendRefused(wrid, op, s, d, peer)
	r.q.resp.Stop()
}
