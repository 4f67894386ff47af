package rc

import (
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
)

// A responder holds requests that arrive too early without knowing how far its peer has
// sent. The peer knows: if a selective acknowledge names a request that it never sent,
// the request was forged. The peer's new packets say so until one of them is known to
// have arrived, and the responder drops the forged request before it is executed. So a
// forged request can only be executed if its PSN is one that the peer has in flight.

// disowning is the requester's side.
type disowning struct {
	active bool   // the peer holds what was never sent
	from   uint32 // from this sequence number on
}

// disownFrom begins to disown what the peer holds from sequence number e on.
func (r *sender) disownFrom(e uint32) {
	r.q.c.Refuse(reason.Detail{Reason: reason.HeldUnsent, Expected: seq.Detail(r.max), Found: seq.Detail(e)})
	if !r.disown.active {
		r.disown = disowning{active: true, from: r.max}
	}
}

// disowns reports whether the packet that leaves next has to say so. A repetition must
// not: the peer may hold requests behind it that were sent.
func (r *sender) disowns() bool {
	if r.disown.active && seq.Before(r.disown.from, r.una) {
		r.disown.active = false
	}
	return r.disown.active && r.nxt == r.max
}
