package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// target is the memory that requests name.
type target struct {
	refusals
	write write
	known *memory.Region // the region used last, to save a lookup
}

// A write is the WRITE that is being received.
type write struct {
	addr   uint64 // where the next byte goes
	left   uint32 // bytes to come
	total  uint32
	region *memory.Region // nil for a message of no bytes
}

// checkKey checks the R_Key and its access rights (IBTA 9.7.4.1.5, 10.6.3). The first
// packet's check covers the whole message; later packets check that the key is still
// valid. A message of no bytes needs no key (C9-88).
func (t *target) checkKey(in *machine.In, info *ib.Info) bool {
	switch info.Kind {
	case ib.KindWrite, ib.KindReadRequest, ib.KindAtomicWrite:
		if !info.First {
			if t.write.region != nil && !t.write.region.Valid() {
				t.denied(reason.Detail{Reason: reason.KeyInvalid, Expected: 1})
				return false
			}
			return true
		}
		t.write.region = nil
		if in.RETH.Length == 0 {
			return true
		}
		return t.resolveKey(in.RETH.RKey, in.RETH.Addr, uint64(in.RETH.Length), access(in, info.Kind))
	case ib.KindFlush:
		return t.checkFlush(in)
	case ib.KindCompareSwap, ib.KindFetchAdd:
		return t.resolveKey(in.AtomicETH.RKey, in.AtomicETH.Addr, conn.AtomicLen, qp.RemoteAtomic)
	}
	return true
}

// resolveKey finds the region of a key for the request, and refuses the request if the
// key does not allow the access.
func (t *target) resolveKey(key uint32, addr, n uint64, need qp.Access) bool {
	reg, d := t.find(t.p.PD, key, addr, n, need)
	if d.Reason != reason.None {
		t.denied(d)
		return false
	}
	t.write.region = reg
	return true
}

// find finds the region of a key and checks the access to it in a protection domain.
func (t *target) find(pd, key uint32, addr, n uint64, need qp.Access) (*memory.Region, reason.Detail) {
	reg, d := t.lookup(key)
	if reg == nil {
		return nil, d
	}
	return reg, reg.CheckRemote(pd, t.p.QPN, addr, n, need)
}

// lookup finds the region of a key.
func (t *target) lookup(key uint32) (*memory.Region, reason.Detail) {
	reg := t.known
	if reg == nil || reg.Key != key || !reg.Valid() {
		if reg = t.p.Memory.Lookup(key); reg == nil {
			return nil, reason.Detail{Reason: reason.KeyUnknown, Expected: uint64(t.p.Memory.Count()), Found: uint64(key)}
		}
		t.known = reg
	}
	return reg, reason.Detail{}
}

// writeMemory writes the payload of a WRITE to its region.
func (t *target) writeMemory(in *machine.In, info *ib.Info) bool {
	w := &t.write
	if info.First {
		w.addr, w.left, w.total = in.RETH.Addr, in.RETH.Length, in.RETH.Length
	}
	n := len(in.Payload)
	if n == 0 {
		return true
	}
	if d := w.region.Put(w.addr, in.Payload); d.Reason != reason.None {
		t.denied(d)
		return false
	}
	if !t.intact(in) {
		return false
	}
	w.addr += uint64(n)
	w.left -= uint32(n)
	return true
}
