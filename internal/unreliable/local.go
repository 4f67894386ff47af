package unreliable

import "softrdma/internal/queue"

// Local carries out the head where it is an operation on this side's memory
// windows, and tells whether it was one (IBTA 10.6.7, 11.4.1.1).
func (q *Queues) Local(w *queue.SendWQE) bool {
	op := w.Op
	if op != queue.BindMW && op != queue.LocalInv {
		return false
	}
	if status, d := q.Port.Local(op, w); status == queue.Success {
		q.Done()
	} else {
		q.Fail(status, d)
	}
	return true
}
