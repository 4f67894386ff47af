package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/seq"
)

// A READ whose request is lost holds up those behind it until the loss is detected and
// the request is sent again. A request is short compared with its response. So on a path
// that loses packets, READ requests to a softrdma responder are sent twice, and four times on a
// long path, where hundreds of others would wait. The responder drops all but the first one
// because they are marked as copies. A request that may have been answered before must not
// be marked.
type readCopies struct {
	left  uint8  // READ requests to send several times, since one was lost
	due   uint8  // times that the READ request at first is still to be sent
	first uint32 // its sequence number
}

const (
	copiesPerLoss = 200
	copyFrom      = 4 // packets that a READ brings at least
	copies        = 1
	farCopies     = 3
)

// copyLater marks the READ request in out as a copy, and schedules the others.
func (r *recovery) copyLater(w *request, out *machine.Out) {
	if r.copies.left > 0 && w.read() && w.last-w.first >= copyFrom && r.q.c.Selective() {
		r.copies.left--
		if r.copies.due, r.copies.first = copies, w.first; r.sender.farReads() {
			r.copies.due = farCopies
		}
		out.Copy = true
	}
}

// sendCopy produces another request of a READ.
func (r *recovery) sendCopy(out *machine.Out) bool {
	c := &r.copies
	c.due--
	if seq.Before(c.first, r.una) || !seq.Before(c.first, r.nxt) {
		return false
	}
	at := r.find(c.first)
	w := &r.requests[at]
	r.sender.question(w, at, 0, w.length, out)
	out.PSN, out.Copy = psn.New(w.first), true
	return true
}
