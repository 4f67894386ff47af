package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// fetch reads the next work request from the ring, checks what can be checked before its
// first packet, and gives it its PSNs. It reports whether there is one that can be
// executed.
func (r *sender) fetch() bool {
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
	*w = request{first: r.nxt, last: r.nxt - 1, op: uint8(min(s.Op, 0xff)), flags: uint8(s.Flags)}
	if status, d := r.check(w, s); status != queue.Success {
		r.completer.failLater(w, status, d)
		return false
	}
	if !w.local() {
		w.last = r.nxt + r.packets(w) - 1
	}
	return true
}

// packets is the number of PSNs of a message: one for a message of no bytes and for an
// atomic, those of the responses for a READ (IBTA 9.7.3).
func (r *sender) packets(w *request) uint32 {
	if w.atomic() || w.length == 0 {
		return 1
	}
	return (w.length-1)>>r.mtuShift + 1
}

// check finds what is wrong with a work request, and its length.
func (r *sender) check(w *request, s *queue.SendWQE) (queue.Status, reason.Detail) {
	op := queue.Op(w.op)
	if !op.Known() || w.responds() && r.p.Attr.MaxRdAtomic == 0 || w.answeredEmpty() && r.p.Type == qp.XRCSend {
		return queue.LocQPOpErr, reason.Detail{Reason: reason.LocalOpcode, Expected: uint64(r.p.Type), Found: uint64(s.Op)}
	}
	switch {
	case op == queue.Flush && !feth(s.Flush()).Known():
		return queue.LocQPOpErr, reason.Detail{Reason: reason.FlushType, Expected: uint64(ib.KnownFETH), Found: uint64(feth(s.Flush()).Bits())}
	case w.local(), w.answeredEmpty():
		return queue.Success, reason.Detail{}
	}
	inline := queue.Flags(w.flags)&queue.Inline != 0 && !w.responds()
	length, status, d := r.p.Measure(s, inline)
	w.length = length
	if inline || status != queue.Success {
		return status, d
	}
	w.flags &^= uint8(queue.Inline)
	if !w.responds() && w.length <= r.mtu {
		return queue.Success, reason.Detail{} // the list is checked when the packet is gathered
	}
	return r.checkList(w, r.p.SQ.SGEsOf(s))
}

// checkList checks a scatter/gather list.
func (r *sender) checkList(w *request, list []memory.SGE) (queue.Status, reason.Detail) {
	var access qp.Access
	switch {
	case w.atomic():
		if w.length != conn.AtomicLen { // IBTA 9.4.5: an atomic returns one word
			return queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: conn.AtomicLen, Found: uint64(w.length)}
		}
		access = qp.LocalWrite
	case w.read():
		access = qp.LocalWrite
	}
	d := r.p.Memory.CheckList(r.p.PD, list, access)
	return machine.LocalStatus(d), d
}

// failLater marks a request that cannot be executed. It completes in error when all
// before it have completed (IBTA 10.8.3: in order of posting).
func (r *completer) failLater(w *request, s queue.Status, d reason.Detail) {
	w.state |= failed
	r.failure = failure{s, d}
	r.advance(0, r.una)
}
