package machine

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// MaxMessage is the longest message (IBTA 9.4.3, C9-94). DDP would have 2^32-1
// (RFC 5041 5.2).
const MaxMessage = 1 << 31

// Measure is the length of the message at ring index i, of inline data or of
// its scatter/gather list, and what is wrong with it.
func (p *Port) Measure(s *queue.SendWQE, inline bool) (uint32, queue.Status, reason.Detail) {
	if inline {
		n := s.Length
		if most := p.SQ.MaxInline(); int64(n) > int64(most) {
			return n, queue.LocLenErr, reason.Detail{Reason: reason.InlineTooLong, Expected: uint64(most), Found: uint64(n)}
		}
		return n, queue.Success, reason.Detail{}
	}
	if n, most := s.NumSGE, p.SQ.MaxSGE(); int64(n) > int64(most) {
		return 0, queue.LocQPOpErr, reason.Detail{Reason: reason.TooManySGEs, Expected: uint64(most), Found: uint64(n)}
	}
	var sum uint64
	for _, e := range p.SQ.SGEsOf(s) {
		sum += uint64(e.Length)
	}
	if sum > MaxMessage {
		return 0, queue.LocLenErr, reason.Detail{Reason: reason.LocalLength, Expected: MaxMessage, Found: sum}
	}
	return uint32(sum), queue.Success, reason.Detail{}
}

// Local executes the local operation op of a work request: binding a memory
// window or invalidating a key (IBTA 10.6.7, 11.4.1.1). A failure of either is a memory
// management operation error (IBTA 11.6.2), which verbs calls IBV_WC_MW_BIND_ERR.
func (p *Port) Local(op queue.Op, w *queue.SendWQE) (queue.Status, reason.Detail) {
	var d reason.Detail
	if op == queue.LocalInv {
		d = p.Memory.Invalidate(w.ImmInv, p.PD, p.QPN)
	} else {
		m := w.MW()
		d = p.Memory.Bind(&memory.Bind{
			Window: m.MWRKey, NewKey: m.RKey, Region: m.MRLKey, Addr: m.Addr, Length: m.Length,
			Access: qp.Access(m.Access), PD: p.PD, QPN: p.QPN,
		})
	}
	if d.Reason != reason.None {
		return queue.MWBindErr, d
	}
	return queue.Success, d
}

// LocalStatus is the completion status of a refusal by local memory.
func LocalStatus(d reason.Detail) queue.Status {
	switch d.Reason {
	case reason.None:
		return queue.Success
	case reason.LocalLength:
		return queue.LocLenErr
	}
	return queue.LocProtErr
}
