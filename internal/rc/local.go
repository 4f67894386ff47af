package rc

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// local carries out the local operation at cur: binding a memory window or
// invalidating a key, at its place in the order (IBTA 10.6.7, 11.4.1.1). It
// tells whether it succeeded.
func (r *requester) local(w *request) bool {
	s := r.p.SQ.At(r.cur)
	status := queue.LocQPOpErr
	var d reason.Detail
	if queue.Op(w.op) == queue.LocalInv {
		d = r.p.Memory.Invalidate(s.ImmInv, r.p.PD, r.p.QPN)
	} else {
		status = queue.MWBindErr
		m := s.MW()
		d = r.p.Memory.Bind(&memory.Bind{
			Window: m.MWRKey, NewKey: m.RKey, Region: m.MRLKey, Addr: m.Addr, Length: m.Length,
			Access: qp.Access(m.Access), PD: r.p.PD, QPN: r.p.QPN,
		})
	}
	if d.Reason != reason.None {
		r.failLater(w, status, d)
		return false
	}
	w.state |= done
	return true
}
