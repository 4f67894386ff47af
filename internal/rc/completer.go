package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// receive takes an acknowledge or a response from the peer.
func (r *completer) receive(now time.Duration, in *machine.In, info *ib.Info) {
	if info.Kind == ib.KindSelectiveAck || info.Kind == ib.KindTelemetry {
		if r.q.c.Selective() {
			r.selectiveAck(now, in)
		}
		return
	}
	e := r.sequence(in.PSN)
	if info.Kind == ib.KindReason {
		r.reason(e, in)
		return
	}
	if in.Train > 1 && (r.recovery.loss.board != nil || seq.Before(e, r.una)) {
		r.apart(now, in)
		return
	}
	switch {
	case !r.underWay(e) && info.Kind == ib.KindAcknowledge && r.q.answersProbe(now, e):
		return
	case !seq.Before(e, r.max):
		// IBTA 9.7.6: a response to nothing that was sent is a ghost.
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseGhost, Expected: seq.Detail(r.max), Found: uint64(in.PSN)})
		return
	case seq.Before(e, r.una):
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseStale, Expected: seq.Detail(r.una), Found: uint64(in.PSN)})
		return
	}
	switch info.Kind {
	case ib.KindAcknowledge:
		r.acknowledge(now, e, in.AETH.Syndrome)
	default:
		r.response(now, e, in, info)
	}
}

// acknowledge takes an ACK or a NAK of sequence number e (IBTA 9.7.6). The MSN of the
// answer (IBTA 9.7.7) is not used: the PSN says which messages are complete, and credits
// are counted from the messages in flight.
func (r *completer) acknowledge(now time.Duration, e uint32, s ib.Syndrome) {
	if s.IsACK() {
		r.sender.credited(now, s)
		if r.recovery.loss.board != nil {
			r.answeredUpTo(now, e+1)
		} else if skipped := r.advance(now, e+1); skipped {
			r.missing(now, e, e+1)
		}
		return
	}
	if !s.IsRNR() && !s.IsNAK() {
		r.q.c.Refuse(reason.Detail{Reason: reason.NAKReserved, Expected: seq.Detail(r.una), Found: uint64(s)})
		return
	}
	// IBTA 9.7.5.1.2: any NAK acknowledges all that came before it.
	if r.recovery.loss.board != nil {
		if r.endsRead(e, s) {
			return
		}
		r.recovery.loss.board.Refuse(e, s)
		r.answeredUpTo(now, e)
		return
	}
	if skipped := r.advance(now, e); skipped {
		if r.endsRead(e, s) {
			return
		}
		r.missing(now, e, e)
		if r.recovery.loss.board != nil {
			r.recovery.loss.board.Refuse(e, s)
		}
		return
	}
	r.refusedAt(now, e, s)
}

// endsRead acts on a NAK that takes the place of a response to the oldest request, a READ, and
// reports whether it was one. IBTA 9.7.5.2.4: the responder is in the error state then. It
// cannot repeat the responses before, whether they have arrived or not.
func (r *completer) endsRead(e uint32, s ib.Syndrome) bool {
	if s.IsRNR() || s == ib.NAKSequence || r.sq.Idle() {
		return false
	}
	w := &r.requests[r.sq.Head]
	if r.p.Attr.State == qp.Err || !w.read() || seq.Before(r.una, w.first) || !seq.Before(w.first, e) || seq.Before(w.last, e) {
		return false
	}
	r.refused(e, s)
	return true
}

// missing acts on an answer of sequence number e that says that everything up to upTo was
// answered, while something before it was not. Between softrdma peers the network may
// have let e overtake it.
func (r *completer) missing(now time.Duration, e, upTo uint32) {
	if !r.q.c.Selective() || seq.Before(r.nxt, upTo) {
		r.recovery.impliedNAK(now, e)
		return
	}
	r.recovery.openBoard()
	r.answeredUpTo(now, upTo)
}

// answeredUpTo notes that the peer has answered everything up to e.
func (r *completer) answeredUpTo(now time.Duration, e uint32) {
	if seq.Before(r.nxt, e) {
		e = r.nxt
	}
	r.recovery.loss.board.Executed = seq.Max(r.recovery.loss.board.Executed, e)
	r.recovery.arrived(now, r.una, e, false)
	r.recovery.judge(now)
}

// refusedAt acts on a NAK of sequence number e when everything before it is answered.
func (r *completer) refusedAt(now time.Duration, e uint32, s ib.Syndrome) {
	if r.p.Attr.State == qp.Err || r.una != e {
		return
	}
	switch {
	case s.IsRNR():
		r.recovery.notReady(now, s)
	case s == ib.NAKSequence:
		if r.nxt != r.una && !r.recovery.nakOfLeftover(now) { // otherwise it is being sent again already
			r.recovery.lostPacket(now)
			r.sender.keepLeftover(now)
			r.recovery.retransmitAll(reason.Detail{Reason: reason.NAKSequence, Expected: seq.Detail(r.una), Found: seq.Detail(e)})
			r.recovery.retry.certain = true
		}
	default:
		r.refused(e, s)
	}
}

// reason takes the peer's reason for the NAK that follows. It changes nothing but what the
// completion says.
func (r *completer) reason(e uint32, in *machine.In) {
	if !r.q.c.Selective() || !r.q.c.Trusted {
		return
	}
	p, ok := own.ParseReason(in.Payload)
	switch {
	case !ok:
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseLength, Expected: own.ReasonLen, Found: uint64(len(in.Payload))})
		return
	case !r.underWay(e):
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseGhost, Expected: seq.Detail(r.max), Found: uint64(in.PSN)})
		return
	}
	if r.told == nil {
		r.told = new(told)
	}
	*r.told = told{at: e, detail: reason.Detail{Reason: reason.Reason(p.Number), Expected: p.Expected, Found: p.Found}}
	r.q.c.Refuse(reason.Detail{Reason: reason.PeerReason, Expected: uint64(p.Number), Found: uint64(in.PSN)})
}

// peerReason returns what the peer said about the oldest request, which fails, if anything. It may have
// refused a later one, whose NAK was lost.
func (r *completer) peerReason(s queue.Status) reason.Detail {
	switch s {
	case queue.RemInvReqErr, queue.RemAccessErr, queue.RemOpErr, queue.RNRRetryExcErr, queue.RetryExcErr:
		w := &r.requests[r.sq.Head]
		if r.told != nil && !seq.Before(r.told.at, w.first) && !seq.Before(w.last, r.told.at) {
			return r.told.detail
		}
	}
	return reason.Detail{}
}

// refused fails the request that the peer refuses to execute (IBTA 9.9.2).
func (r *completer) refused(e uint32, s ib.Syndrome) {
	d := reason.Detail{Expected: seq.Detail(r.requests[r.sq.Head].first), Found: seq.Detail(e)}
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
