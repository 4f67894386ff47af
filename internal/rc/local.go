package rc

import "softrdma/internal/queue"

// local carries out the local operation at cur: binding a memory window or
// invalidating a key, at its place in the order (IBTA 10.6.7, 11.4.1.1). It
// tells whether it succeeded.
func (r *requester) local(w *request) bool {
	if status, d := r.p.Local(queue.Op(w.op), r.p.SQ.At(r.cur)); status != queue.Success {
		r.failLater(w, status, d)
		return false
	}
	w.state |= done
	return true
}
