package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Supports returns an error that wraps errors.ErrUnsupported if an operation cannot be
// posted to a connection. iWARP has no SEND with immediate data. Atomics and WRITEs with
// immediate data need RFC 7306 at the peer.
func (q *QP) Supports(op queue.Op) error {
	if d := q.supports(op); d.Reason != reason.None {
		return &Error{d}
	}
	return nil
}

func (q *QP) supports(op queue.Op) reason.Detail {
	switch op {
	case queue.Write, queue.Send, queue.SendInv, queue.Read, queue.LocalInv, queue.BindMW:
		return reason.Detail{}
	case queue.WriteImm, queue.CompareSwap, queue.FetchAdd:
		if q.a.Extensions {
			return reason.Detail{}
		}
	case queue.SendImm:
	default:
		return reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(q.p.Type), Found: uint64(op)}
	}
	return reason.Detail{Reason: reason.RDMAPExtension, Expected: uint64(q.p.Type), Found: uint64(op)}
}

// fetch reads the next work request from the ring and checks what it can before the first
// FPDU. It reports whether there is a valid one.
func (r *requester) fetch(now time.Duration) bool {
	if r.p.Attr.State != qp.RTS {
		return false
	}
	i, ok := r.sq.Fetch()
	if !ok {
		return false
	}
	if r.requests == nil {
		r.requests = make([]request, r.p.SQ.Depth()+1)
	}
	s := r.p.SQ.At(i)
	w := &r.requests[i]
	*w = request{op: uint8(min(s.Op, 0xff)), flags: uint8(s.Flags)}
	if status, d := r.check(w, i, s); status != queue.Success {
		r.failLater(now, w, status, d)
		return false
	}
	return true
}

// check finds errors in a work request, and its length.
func (r *requester) check(w *request, i uint32, s *queue.SendWQE) (queue.Status, reason.Detail) {
	op := queue.Op(w.op)
	if d := r.q.supports(op); d.Reason != reason.None {
		return queue.LocQPOpErr, d
	}
	if w.responds() && len(r.asks) == 0 {
		return queue.LocQPOpErr, reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(r.p.Type), Found: uint64(s.Op)}
	}
	if w.local() {
		return queue.Success, reason.Detail{}
	}
	inline := queue.Flags(w.flags)&queue.Inline != 0 && !w.responds()
	length, status, d := r.p.Measure(s, inline)
	if w.length = length; inline || status != queue.Success {
		return status, d
	}
	w.flags &^= uint8(queue.Inline)
	return r.checkList(w, r.p.SQ.SGEs(i))
}

// checkList checks a scatter/gather list. The list of a READ is checked when it is sent,
// the list of a message of one FPDU when that is gathered.
func (r *requester) checkList(w *request, list []memory.SGE) (queue.Status, reason.Detail) {
	switch {
	case w.atomic():
		if w.length != 8 { // RFC 7306 5.2.2: an Atomic Response returns one word
			return queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: 8, Found: uint64(w.length)}
		}
		return queue.Success, reason.Detail{}
	case w.responds(), int(w.length) <= copyBelow:
		return queue.Success, reason.Detail{}
	}
	d := r.p.Memory.CheckList(r.p.PD, list, 0)
	return machine.LocalStatus(d), d
}

// local executes the local operation at sq.Cur: binding a memory window or invalidating a key,
// in the order of posting (IBTA 10.6.7, 11.4.1.1). It reports whether it succeeded.
func (r *requester) local(now time.Duration, w *request) bool {
	if status, d := r.p.Local(queue.Op(w.op), r.p.SQ.At(r.sq.Cur)); status != queue.Success {
		r.failLater(now, w, status, d)
		return false
	}
	w.state |= done
	return true
}
