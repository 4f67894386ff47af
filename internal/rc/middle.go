package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Continue implements machine.Continuer. Each check is one of those that Receive
// makes; where one fails it is Receive that refuses, or that knows what to do.
func (q *QP) Continue(now time.Duration, in *machine.In) bool {
	st := q.p.Attr.State
	if st != qp.RTS && (st != qp.RTR || !q.established) || in.Marked() || !q.fromPeer(in) {
		return false
	}
	info := in.Opcode.Info()
	switch in.Opcode {
	case ib.RCWriteMiddle, ib.RCSendMiddle:
		if !q.origins[ofRequests].Is(in.Src.Port()) || !q.resp.awaits(in, info) {
			return false
		}
		q.meet(in, info)
		q.resp.take(in, info)
	case ib.RCReadResponseMiddle:
		if !q.origins[ofAnswers].Is(in.Src.Port()) || !q.req.awaits(in) {
			return false
		}
		q.meet(in, info)
		q.req.take(now, in)
	default:
		return false
	}
	q.heard = now
	q.settle()
	return true
}

// awaits tells whether the packet is the one expected in the middle of a message
// and passes all checks.
func (r *responder) awaits(in *machine.In, info *ib.Info) bool {
	n := uint32(len(in.Payload))
	need := rights(info.Kind)
	if in.PSN != r.expected || r.order != nil || r.message != info.Kind || n != r.mtu || r.p.Attr.Access&need != need {
		return false
	}
	if info.Kind == ib.KindSend {
		if r.received+uint64(n) > r.recv.Length {
			return false
		}
	} else if n >= r.left || r.region == nil || !r.region.Valid() {
		return false
	}
	return true
}

// take puts such a packet to its place.
func (r *responder) take(in *machine.In, info *ib.Info) {
	r.silent, r.notReady, r.nak = false, false, false
	r.execute(in, info)
}

// awaits tells whether the packet is the one expected in the middle of the answer
// to the oldest request, which is a READ.
func (r *requester) awaits(in *machine.In) bool {
	if r.board != nil || r.head == r.end || uint32(len(in.Payload)) != r.mtu {
		return false
	}
	e, w := r.sequence(in.PSN), &r.requests[r.head]
	return e == r.una && before(e, r.max) && w.read() && w.state&started != 0 && w.state&failed == 0 &&
		before(w.first, e) && before(e, w.last)
}

// take puts such a packet to its place.
func (r *requester) take(now time.Duration, in *machine.In) {
	w, n := &r.requests[r.head], uint32(len(in.Payload))
	done := (r.una - w.first) << r.mtuShift
	if d := r.scatter.Scatter(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.head), uint64(done), in.Payload); d.Reason != reason.None {
		r.fail(machine.LocalStatus(d), d)
		return
	}
	r.answered(now, r.una, w, 1, n)
}
