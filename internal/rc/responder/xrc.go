package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// aim takes the shared receive queue that an XRC request names for the one of this queue
// pair: its protection domain and its completion queue are those of the request (annex A14).
// All packets of a message name the same one.
func (r *Responder) aim(in *machine.In, info *ib.Info) bool {
	if r.p.Aim == nil {
		return true
	}
	n := in.XRCETH.SRQN
	if (!info.First || r.taken) && n != r.srqn {
		r.invalid(reason.Detail{Reason: reason.XRCQueueChanged, Expected: uint64(r.srqn), Found: uint64(n)})
		return false
	}
	if d := r.p.Aim(n); d.Reason != reason.None {
		r.invalid(d)
		return false
	}
	r.srqn = n
	return true
}

// Withdraw forgets the receive that was taken, as its shared receive queue is destroyed. If a
// message is being received, its next packet is refused.
func (r *Responder) Withdraw() {
	r.taken = false
	r.endFirst()
	r.DropHeld()
}
