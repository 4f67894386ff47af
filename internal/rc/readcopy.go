package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/seq"
)

// A READ whose request is lost holds up those behind it until the loss is detected and
// the request is sent again. A request is short compared with its response. So on a path
// that loses packets, READ requests to a softrdma responder are sent twice. The responder
// drops the second one because both are marked as copies. A request that may have been
// answered before must not be marked.
type readCopies struct {
	left  uint8  // READ requests to send twice, since one was lost
	due   bool   // the READ request at first is to be sent a second time
	first uint32 // its sequence number
}

const (
	copiesPerLoss = 200
	copyFrom      = 4 // packets that a READ brings at least
)

// copyLater marks the READ request in out as a copy, and schedules the second one.
func (r *recovery) copyLater(w *request, out *machine.Out) {
	if r.copies.left > 0 && w.read() && w.last-w.first >= copyFrom && r.q.c.Selective() {
		r.copies.left--
		r.copies.due, r.copies.first = true, w.first
		out.Copy = true
	}
}

// sendCopy produces the second request of a READ.
func (r *recovery) sendCopy(out *machine.Out) bool {
	c := &r.copies
	c.due = false
	if seq.Before(c.first, r.una) || !seq.Before(c.first, r.nxt) {
		return false
	}
	at := r.find(c.first)
	w := &r.requests[at]
	r.sender.question(w, at, 0, w.length, out)
	out.PSN, out.Copy = psn.New(w.first), true
	return true
}
