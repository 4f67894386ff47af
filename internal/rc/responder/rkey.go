package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// checkKey checks the R_Key and its access rights (IBTA 9.7.4.1.5, 10.6.3). The first
// packet's check covers the whole message; later packets check that the key is still
// valid. A message of no bytes needs no key (C9-88).
func (r *Responder) checkKey(in *machine.In, info *ib.Info) bool {
	switch info.Kind {
	case ib.KindWrite, ib.KindReadRequest, ib.KindAtomicWrite:
		if !info.First {
			if r.write.region != nil && !r.write.region.Valid() {
				r.denied(reason.Detail{Reason: reason.KeyInvalid, Expected: 1})
				return false
			}
			return true
		}
		r.write.region = nil
		if in.RETH.Length == 0 {
			return true
		}
		return r.resolveKey(in.RETH.RKey, in.RETH.Addr, uint64(in.RETH.Length), access(in, info.Kind))
	case ib.KindFlush:
		return r.checkFlush(in)
	case ib.KindCompareSwap, ib.KindFetchAdd:
		return r.resolveKey(in.AtomicETH.RKey, in.AtomicETH.Addr, conn.AtomicLen, qp.RemoteAtomic)
	}
	return true
}

// resolveKey finds the region of a key for the request, and refuses the request if the
// key does not allow the access.
func (r *Responder) resolveKey(key uint32, addr, n uint64, need qp.Access) bool {
	reg, d := r.find(r.p.PD, key, addr, n, need)
	if d.Reason != reason.None {
		r.denied(d)
		return false
	}
	r.write.region = reg
	return true
}

// find finds the region of a key and checks the access to it in a protection domain.
func (r *Responder) find(pd, key uint32, addr, n uint64, need qp.Access) (*memory.Region, reason.Detail) {
	reg, d := r.lookup(key)
	if reg == nil {
		return nil, d
	}
	return reg, reg.CheckRemote(pd, r.p.QPN, addr, n, need)
}

// lookup finds the region of a key.
func (r *Responder) lookup(key uint32) (*memory.Region, reason.Detail) {
	reg := r.known
	if reg == nil || reg.Key != key || !reg.Valid() {
		if reg = r.p.Memory.Lookup(key); reg == nil {
			return nil, reason.Detail{Reason: reason.KeyUnknown, Expected: uint64(r.p.Memory.Count()), Found: uint64(key)}
		}
		r.known = reg
	}
	return reg, reason.Detail{}
}
