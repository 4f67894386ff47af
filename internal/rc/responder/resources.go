package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// takeResources takes what the request needs: a receive, or a place to remember a READ or
// atomic in (IBTA 9.7.4.1.4).
func (r *Responder) takeResources(in *machine.In, info *ib.Info) bool {
	switch info.Kind {
	case ib.KindSend:
		return !info.First || r.takeReceive(in, info)
	case ib.KindWrite:
		return info.Headers&ib.HasImmDt == 0 || r.takeReceive(in, info)
	}
	depth := int(r.p.Attr.MaxDestRdAtomic)
	most := depth
	if in.Keep && r.c.Selective() {
		most = max(conn.KeepFactor*depth, int(r.wide.kept))
	}
	if r.history.vacant(depth, most) {
		return true
	}
	r.invalid(reason.Detail{Reason: reason.TooManyReads, Expected: uint64(depth), Found: uint64(depth) + 1})
	return false
}

// takeReceive takes the oldest receive, unless a packet that was lost later took it already.
func (r *Responder) takeReceive(in *machine.In, info *ib.Info) bool {
	if r.taken {
		return true
	}
	if r.p.RQ != nil && r.p.RQ.Take(&r.recv) {
		r.taken = true
		if !r.first.over {
			r.endFirst()
		}
		return true
	}
	if r.awaitReceive(in, info) {
		return false
	}
	// IBTA 9.7.5.2.8: the RNR NAK leaves ePSN unchanged.
	d := reason.Detail{Reason: reason.NoReceive, Expected: uint64(r.p.Attr.MinRNRTimer), Found: uint64(r.msn)}
	r.c.Refuse(d)
	r.nak.sent, r.nak.rnr = true, true
	r.reject(ib.RNRNAK | ib.Syndrome(r.p.Attr.MinRNRTimer&0x1f))
	r.tell(d)
	return false
}
