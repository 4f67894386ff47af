package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
)

// A responder holds requests that come too early without knowing how far its peer
// has sent. The peer knows: if a selective acknowledge names a request that it
// never sent, the request was forged. The peer's new packets say so until one of
// them is known to have arrived, and the responder drops the forged request before
// it is executed. So a forged request can only be executed if its PSN is one that
// the peer has in flight.

// disown begins to disown what the peer holds from sequence number e on.
func (r *requester) disown(e uint32) {
	r.q.refuse(reason.Detail{Reason: reason.HeldUnsent, Expected: wire(r.max), Found: wire(e)})
	if !r.disowning {
		r.disowning, r.disowned = true, r.max
	}
}

// disowns reports whether the packet that leaves next has to say so. A repetition
// must not: the peer may hold requests behind it that were sent.
func (r *requester) disowns() bool {
	if r.disowning && before(r.disowned, r.una) {
		r.disowning = false
	}
	return r.disowning && r.nxt == r.max
}

// disown drops all held requests from a given one on: the peer never sent them.
func (r *responder) disown(in *machine.In) {
	if n := r.order.cut(in.PSN, r.q.store); n > 0 {
		r.q.refuse(reason.Detail{Reason: reason.HeldDisowned, Expected: uint64(in.PSN), Found: uint64(n)})
		r.tell = true
	}
	r.emptied()
}

// cut takes the requests from p on off, gives them back, and returns how many
// there were.
func (o *reorder) cut(p psn.PSN, s *Store) (n int) {
	for i := len(o.runs) - 1; i >= 0 && o.runs[i].end.After(p); i-- {
		u := &o.runs[i]
		var keep *held // the last one before p
		h := u.head
		for h != nil && h.PSN.Before(p) {
			keep, h = h, h.next
		}
		for h != nil {
			next := h.next
			s.give(h)
			h = next
			n++
		}
		if keep == nil {
			o.runs = o.runs[:i]
			continue
		}
		keep.next = nil
		u.tail, u.end = keep, keep.PSN.Add(int(keep.count))
	}
	return n
}
