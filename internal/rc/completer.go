package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// receive takes an acknowledge or a response from the peer.
func (r *requester) receive(now time.Duration, in *machine.In, info *ib.Info) {
	if info.Kind == ib.KindSelectiveAck {
		if r.q.selective() {
			r.selectiveAck(now, in)
		}
		return
	}
	e := r.sequence(in.PSN)
	if in.Train > 1 && (r.board != nil || before(e, r.una)) {
		r.apart(now, in)
		return
	}
	switch {
	case !r.underWay(e) && info.Kind == ib.KindAcknowledge && r.q.answersProbe(now, e):
		return
	case int32(e-r.max) >= 0:
		// IBTA 9.7.6: a response to nothing that was sent is a ghost.
		r.q.refuse(reason.Detail{Reason: reason.ResponseGhost, Expected: wire(r.max), Found: uint64(in.PSN)})
		return
	case int32(e-r.una) < 0:
		r.q.refuse(reason.Detail{Reason: reason.ResponseStale, Expected: wire(r.una), Found: uint64(in.PSN)})
		return
	}
	switch info.Kind {
	case ib.KindAcknowledge:
		r.acknowledge(now, e, in.AETH.Syndrome)
	default:
		r.response(now, e, in, info)
	}
}

// acknowledge takes an ACK or a NAK of sequence number e (IBTA 9.7.6).
func (r *requester) acknowledge(now time.Duration, e uint32, s ib.Syndrome) {
	if s.IsACK() {
		r.credited(now, s)
		if r.board != nil {
			r.answeredUpTo(now, e+1)
		} else if r.advance(now, e+1) {
			r.missing(now, e, e+1)
		}
		return
	}
	if !s.IsRNR() && !s.IsNAK() {
		r.q.refuse(reason.Detail{Reason: reason.NAKReserved, Expected: wire(r.una), Found: uint64(s)})
		return
	}
	// IBTA 9.7.5.1.2: any NAK acknowledges all that came before it.
	if r.board != nil {
		r.board.refuse(e, s)
		r.answeredUpTo(now, e)
		return
	}
	if r.advance(now, e) {
		if r.missing(now, e, e); r.board != nil {
			r.board.refuse(e, s)
		}
		return
	}
	r.refusedAt(now, e, s)
}

// missing acts on an answer of sequence number e that says that everything up
// to upTo was answered, while something before it was not. Between peers that
// know of selective acknowledges the network may have let e overtake it.
func (r *requester) missing(now time.Duration, e, upTo uint32) {
	if !r.q.selective() || before(r.nxt, upTo) {
		r.gap(now, e)
		return
	}
	r.open()
	r.answeredUpTo(now, upTo)
}

// answeredUpTo takes note that the peer has answered everything up to e.
func (r *requester) answeredUpTo(now time.Duration, e uint32) {
	if before(r.nxt, e) {
		e = r.nxt
	}
	r.board.done = later(r.board.done, e)
	r.arrived(now, r.una, e, false)
	r.judge(now)
}

// refusedAt acts on a NAK of sequence number e when its turn has come.
func (r *requester) refusedAt(now time.Duration, e uint32, s ib.Syndrome) {
	if r.p.Attr.State == qp.Err || r.una != e {
		return
	}
	switch {
	case s.IsRNR():
		r.notReady(now, s)
	case s == ib.NAKSequence:
		if r.nxt != r.una && !r.sentAgain(now) { // otherwise it is being repeated already
			r.lostPacket(now)
			r.spread(now)
			r.repeat(reason.Detail{Reason: reason.NAKSequence, Expected: wire(r.una), Found: wire(e)})
			r.certain = true
		}
	default:
		r.refused(e, s)
	}
}

// refused fails the request that the peer will not carry out.
func (r *requester) refused(e uint32, s ib.Syndrome) {
	d := reason.Detail{Expected: wire(r.requests[r.head].first), Found: wire(e)}
	status := queue.RemOpErr
	switch s {
	case ib.NAKInvalidRequest:
		d.Reason, status = reason.NAKInvalidRequest, queue.RemInvReqErr
	case ib.NAKRemoteAccess:
		d.Reason, status = reason.NAKRemoteAccess, queue.RemAccessErr
	case ib.NAKRemoteOperational:
		d.Reason = reason.NAKRemoteOperational
	default:
		d.Reason, d.Found = reason.NAKReserved, uint64(s)
	}
	r.fail(status, d)
}

// advance takes note that the peer has executed everything before sequence
// number e, and completes what that completes, in order. It stops at a READ or
// an atomic that was not answered and tells so when e lies behind it: its
// response was lost (IBTA 9.7.6, implied NAK).
func (r *requester) advance(now time.Duration, e uint32) (skipped bool) {
	una := r.una
loop:
	for r.head != r.end {
		w := &r.requests[r.head]
		switch {
		case w.state&failed != 0:
			r.fail(r.failStatus, r.failDetail)
			return false
		case w.local():
			if w.state&done == 0 {
				break loop
			}
		case w.state&started == 0:
			break loop
		case w.responds():
			if r.board != nil && before(r.una, e) { // answered, in whatever order
				if r.una = min32(e, w.last+1); r.una == w.last+1 {
					r.acked += overhead
				}
			}
			if r.una != w.last+1 {
				skipped = int32(e-r.una) > 0
				break loop
			}
		case int32(e-w.last) <= 0: // a part of the message at most
			if n := e - r.una; int32(n) > 0 {
				r.acked += n * (r.mtu + overhead)
				r.una = e
			}
			break loop
		default:
			n := r.una - w.first
			r.acked += w.length - n*r.mtu + (w.last+1-r.una)*overhead
			r.una = w.last + 1
		}
		r.complete(w)
	}
	if r.una != una {
		r.progress(now)
	}
	return skipped
}

// release gives the ring's entries before head back.
func (r *requester) release(head uint32) {
	// A request that completed before it was sent again need not be.
	if r.p.SQ.Distance(r.head, r.cur) < r.p.SQ.Distance(r.head, head) {
		r.cur, r.off = head, 0
		r.gather.Restart()
	}
	r.head = head
	r.p.SQ.Release(head)
}

// complete completes the oldest request with success and gives its slot back,
// before its completion can be seen: whoever counts completions may post
// again at once. IBTA 10.7.3.1: only signalled requests have a completion.
func (r *requester) complete(w *request) {
	wrid, length, op := r.p.SQ.At(r.head).WRID, w.length, queue.Op(w.op)
	signalled := r.p.SQSigAll || queue.Flags(w.flags)&queue.Signaled != 0
	if w.responds() {
		r.reads--
		if w.state&landed != 0 {
			r.landed--
		}
	}
	if w.takesReceive() {
		r.taking--
	}
	r.release(r.p.SQ.Next(r.head))
	if !signalled {
		return
	}
	c := r.q.Completion(wrid, op.Completed(), queue.Success, reason.Detail{})
	c.ByteLen = length
	r.p.SendCQ.Push(c)
}

// fail completes the oldest request in error and ends the connection
// (IBTA 9.9.2, 10.10.2.2).
func (r *requester) fail(s queue.Status, d reason.Detail) {
	r.q.refuse(d)
	wrid, op := r.p.SQ.At(r.head).WRID, queue.Op(r.requests[r.head].op)
	r.q.enterErr(d, s)
	r.release(r.p.SQ.Next(r.head))
	r.p.SendCQ.Push(r.q.Completion(wrid, op.Completed(), s, d))
	r.q.resp.stop()
}
