package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Payload that was read into scratch is copied to its place. Payload that follows it in the
// stream is read directly to its place if that is memory of this process. In both cases the
// memory is looked up again each time, because it may have gone since the segment began.

// places appends the memory of the expected payload to list, and reports whether it can be
// read there.
func (r *receiver) places(now time.Duration, list [][]byte) ([][]byte, bool) {
	var direct bool
	var d reason.Detail
	switch r.target {
	case toRegion:
		if !r.region.Valid() {
			r.gone(now)
			return list, false
		}
		b := r.region.Place(r.addr, r.left)
		return append(list, b), b != nil
	case toReceive:
		list, direct, d = r.cursor.Places(r.p.Memory, r.p.RecvPD, r.recv.SGEs, r.received, r.left, list)
		if d.Reason != reason.None {
			r.q.fatal(now, iwarp.TermDDPLocal, nil, local(d))
		}
	case toAsk:
		a := r.q.req.first()
		list, direct, d = r.sink.Places(r.p.Memory, r.p.PD, a.sges, uint64(a.pos), r.left, list)
		if d.Reason != reason.None {
			r.failAnswer(now, iwarp.TermDDPLocal, nil, machine.LocalStatus(d), d)
		}
	}
	return list, direct
}

// place copies payload to its place, and reports success.
func (r *receiver) place(now time.Duration, b []byte) bool {
	switch r.target {
	case toRegion:
		if !r.region.Valid() {
			r.gone(now)
			return false
		}
		if d := r.region.Put(r.addr, b); d.Reason != reason.None {
			r.q.fatal(now, taggedTerm(d, false), r.head[:r.have], denied(d))
			return false
		}
	case toReceive:
		if d := r.cursor.Scatter(r.p.Memory, r.p.RecvPD, r.recv.SGEs, r.received, b); d.Reason != reason.None {
			r.q.fatal(now, iwarp.TermDDPLocal, nil, local(d))
			return false
		}
	case toAsk:
		a := r.q.req.first()
		if d := r.sink.Scatter(r.p.Memory, r.p.PD, a.sges, uint64(a.pos), b); d.Reason != reason.None {
			r.failAnswer(now, iwarp.TermDDPLocal, nil, machine.LocalStatus(d), d)
			return false
		}
	}
	r.placed(len(b))
	return true
}

// gone ends the connection because a WRITE's STag became invalid before its end.
func (r *receiver) gone(now time.Duration) {
	r.q.fatal(now, iwarp.TermTaggedSTag, r.head[:r.have], denied(reason.Detail{Reason: reason.KeyInvalid, Expected: 1}))
}

// placed counts n bytes of payload.
func (r *receiver) placed(n int) {
	r.p.Took(n)
	switch r.target {
	case toRegion:
		r.addr += uint64(n)
	case toReceive:
		r.received += uint64(n)
	case toAsk:
		r.q.req.first().pos += uint32(n)
	}
	if r.left -= n; r.left == 0 {
		r.toTrailer()
	}
}

// find finds the region of an STag and checks the access to it.
func (r *receiver) find(stag uint32, to, n uint64, access qp.Access) (*memory.Region, reason.Detail) {
	reg := r.known
	if reg == nil || reg.Key != stag || !reg.Valid() {
		if reg = r.p.Memory.Lookup(stag); reg == nil {
			return nil, reason.Detail{Reason: reason.KeyUnknown, Expected: uint64(r.p.Memory.Count()), Found: uint64(stag)}
		}
		r.known = reg
	}
	return reg, reg.CheckRemote(r.p.PD, r.p.QPN, to, n, access)
}
