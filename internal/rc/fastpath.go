package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/seq"
	"softrdma/internal/wire/ib"
)

// Continue implements machine.Continuer: a faster path for packets in the middle of a
// message, and for WRITEs of one packet. Each check is one of those that Receive makes. If one fails, Receive refuses
// the packet, or knows what to do.
func (q *QP) Continue(now time.Duration, in *machine.In) bool {
	st := q.c.Port.Attr.State
	if st != qp.RTS && (st != qp.RTR || !q.established) || in.Marked() || in.Wide && in.AckReq || len(in.Hops) != 0 || !q.fromPeer(in) {
		return false
	}
	info := in.Opcode.Info()
	switch in.Opcode {
	case ib.RCWriteMiddle, ib.RCSendMiddle, ib.RCWriteOnly:
		if !q.origins[ofRequests].Is(in.Src.Port()) || !q.resp.Continue(in, info) {
			return false
		}
		q.learnPeer(in, info)
	case ib.RCReadResponseMiddle:
		if !q.origins[ofAnswers].Is(in.Src.Port()) || !q.req.completer.awaits(in) {
			return false
		}
		q.learnPeer(in, info)
		r := &q.req
		w := &r.requests[r.sq.Head]
		r.completer.deliverResponse(now, r.una, w, in, uint64((r.una-w.first)<<r.mtuShift), in.Payload)
	default:
		return false
	}
	q.heard = now
	q.settle()
	return true
}

// awaits reports whether the packet is the one expected in the middle of the answer to
// the oldest request, which is a READ.
func (r *completer) awaits(in *machine.In) bool {
	if r.recovery.loss.board != nil || r.sq.Idle() || uint32(len(in.Payload)) != r.mtu {
		return false
	}
	e, w := r.sequence(in.PSN), &r.requests[r.sq.Head]
	return e == r.una && seq.Before(e, r.max) && w.read() && w.state&started != 0 && w.state&failed == 0 &&
		seq.Before(w.first, e) && seq.Before(e, w.last)
}
