package responder

import (
	"encoding/binary"

	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// atomic performs an atomic with the processor's own atomics, so that it is one for
// this host's programs as well (IBTA 9.4.5). The original value is kept for a duplicate.
func (r *Responder) atomic(in *machine.In, info *ib.Info) {
	h := &in.AtomicETH
	var old uint64
	addr := h.Addr
	if info.Kind == ib.KindAtomicWrite {
		addr = in.RETH.Addr
	}
	region := r.write.region
	if addr&(conn.AtomicLen-1) != 0 || region.Word(addr) == nil {
		// IBTA 9.4.5: the address must be aligned. Linux answers with this NAK as well.
		r.invalid(reason.Detail{Reason: reason.AtomicAlignment, Expected: conn.AtomicLen, Found: addr})
		return
	}
	var ok bool
	switch info.Kind {
	case ib.KindAtomicWrite:
		ok = region.SetWord(addr, binary.NativeEndian.Uint64(in.Payload))
	case ib.KindFetchAdd:
		old, ok = region.FetchAdd(addr, h.SwapAdd)
	default:
		old, ok = region.CompareSwap(addr, h.Compare, h.SwapAdd)
	}
	if !ok {
		r.denied(reason.Detail{Reason: reason.MemoryUnmapped, Expected: conn.AtomicLen, Found: addr})
		return
	}
	r.msn = r.msn.Next()
	res := r.history.remember(in, r.msn)
	res.atomic, res.value = true, old
	r.write.region = nil
	r.accepted(in, 1)
}
