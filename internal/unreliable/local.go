package unreliable

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Local carries out the head where it is an operation on this side's memory
// windows, and tells whether it was one (IBTA 10.6.7, 11.4.1.1).
func (q *Queues) Local(w *queue.SendWQE) bool {
	var d reason.Detail
	status := queue.MWBindErr
	switch w.Op {
	case queue.BindMW:
		m := w.MW()
		d = q.Memory.Bind(&memory.Bind{
			Window: m.MWRKey, NewKey: m.RKey, Region: m.MRLKey, Addr: m.Addr, Length: m.Length,
			Access: qp.Access(m.Access), PD: q.PD, QPN: q.QPN,
		})
	case queue.LocalInv:
		status = queue.LocQPOpErr // as Linux does
		d = q.Memory.Invalidate(w.ImmInv, q.PD, q.QPN)
	default:
		return false
	}
	if d.Reason == reason.None {
		q.Done()
	} else {
		q.Fail(status, d)
	}
	return true
}
