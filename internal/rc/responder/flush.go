package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// flushAccess is the right that each placement of a FLUSH needs (IBTA A19).
func flushAccess(p ib.Placement) (need qp.Access) {
	if p&ib.GlobalVisibility != 0 {
		need |= qp.FlushGlobal
	}
	if p&ib.Persistence != 0 {
		need |= qp.FlushPersistent
	}
	return need
}

// checkFlush checks the key of a FLUSH. Address and length of one that flushes the whole
// region mean nothing; a range of no bytes needs a valid key nevertheless (IBTA A19).
func (t *target) checkFlush(in *machine.In) bool {
	need := flushAccess(in.FETH.Placement)
	if in.FETH.Selectivity == ib.FlushRange {
		return t.resolveKey(in.RETH.RKey, in.RETH.Addr, uint64(in.RETH.Length), need)
	}
	reg, d := t.lookup(in.RETH.RKey)
	if reg != nil {
		d = reg.CheckKey(t.p.PD, t.p.QPN, need)
	}
	if d.Reason != reason.None {
		t.denied(d)
		return false
	}
	return true
}

// flush performs a FLUSH. Everything before it was executed, in memory that this host's
// programs see: a lane makes the stores to another process before any answer leaves. So
// global visibility is reached when the answer is sent. No region has the right to
// persistence, see memory.CheckAccess.
func (r *Responder) flush(in *machine.In) {
	r.msn = r.msn.Next()
	res := r.history.remember(in, r.msn)
	res.atomic = true
	r.write.region = nil
	r.accepted(in, 1)
}
