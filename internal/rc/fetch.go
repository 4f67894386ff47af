package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// fetch takes the next work request from the ring, checks what can be checked
// before its first packet and gives it its PSNs. It tells whether cur is a
// request that can be carried out.
func (r *requester) fetch() bool {
	sq := r.p.SQ
	if r.end == sq.Producer() || r.p.Attr.State != qp.RTS {
		return false
	}
	next := sq.Next(r.end)
	if next == r.head {
		return false // a producer that overtook the consumer
	}
	if r.requests == nil {
		r.requests = make([]request, sq.Depth()+1)
	}
	s := sq.At(r.end)
	w := &r.requests[r.end]
	*w = request{first: r.nxt, last: r.nxt - 1, op: uint8(min(s.Op, 0xff)), flags: uint8(s.Flags)}
	i := r.end
	r.end = next
	if status, d := r.check(w, i, s); status != queue.Success {
		r.failLater(w, status, d)
		return false
	}
	if !w.local() {
		w.last = r.nxt + r.packets(w) - 1
	}
	return true
}

// atomicLen is what atomics work on, bytes.
const atomicLen = 8

// packets is how many PSNs a message takes: one for a message of no bytes and
// for an atomic, those of the responses for a READ (IBTA 9.7.3).
func (r *requester) packets(w *request) uint32 {
	if w.atomic() || w.length == 0 {
		return 1
	}
	return (w.length-1)>>r.mtuShift + 1
}

// check finds what is wrong with a work request, and its length.
func (r *requester) check(w *request, i uint32, s *queue.SendWQE) (queue.Status, reason.Detail) {
	op := queue.Op(w.op)
	if op > queue.SendInv && op != queue.AtomicWrite || w.responds() && r.p.Attr.MaxRdAtomic == 0 {
		return queue.LocQPOpErr, reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(r.p.Type), Found: uint64(s.Op)}
	}
	if w.local() {
		return queue.Success, reason.Detail{}
	}
	if op == queue.AtomicWrite {
		if most := r.p.SQ.MaxInline(); most < atomicLen {
			return queue.LocLenErr, reason.Detail{Reason: reason.InlineTooLong, Expected: uint64(most), Found: atomicLen}
		}
		return queue.Success, reason.Detail{}
	}
	inline := queue.Flags(w.flags)&queue.Inline != 0 && !w.responds()
	length, status, d := r.p.Measure(i, inline)
	if w.length = length; inline || status != queue.Success {
		return status, d
	}
	w.flags &^= uint8(queue.Inline)
	return r.checkList(w, r.p.SQ.SGEs(i))
}

// checkList checks a scatter/gather list. A list that one packet will gather
// is left to that packet.
func (r *requester) checkList(w *request, list []memory.SGE) (queue.Status, reason.Detail) {
	var access qp.Access
	switch {
	case w.atomic():
		if w.length < 8 {
			return queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: 8, Found: uint64(w.length)}
		}
		w.length = 8
		access = qp.LocalWrite
	case w.read():
		access = qp.LocalWrite
	case w.length <= r.mtu:
		return queue.Success, reason.Detail{}
	}
	d := r.p.Memory.CheckList(r.p.PD, list, access)
	return machine.LocalStatus(d), d
}

// failLater marks a request that cannot be carried out. It completes in error
// when all before it have completed (IBTA 10.8.3: in order of posting).
func (r *requester) failLater(w *request, s queue.Status, d reason.Detail) {
	w.state |= failed
	r.failStatus, r.failDetail = s, d
	r.advance(0, r.una)
}
