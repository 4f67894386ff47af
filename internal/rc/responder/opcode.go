package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// checkSequence checks the opcode sequence (IBTA 9.7.4.1.2).
func (r *Responder) checkSequence(in *machine.In, info *ib.Info) bool {
	if r.message == ib.KindNone && info.First || r.message == info.Kind && !info.First {
		return true
	}
	r.invalid(reason.Detail{Reason: reason.OpcodeSequence, Expected: uint64(r.opcode), Found: uint64(in.Opcode)})
	return false
}

// checkOpcode checks what the queue pair allows its peer (IBTA 9.7.4.1.3, 11.2.5.2).
func (r *Responder) checkOpcode(in *machine.In, info *ib.Info) bool {
	if info.Kind == ib.KindFlush && !in.FETH.Known() {
		r.invalid(reason.Detail{Reason: reason.FlushType, Expected: uint64(ib.KnownFETH), Found: uint64(in.FETH.Bits())})
		return false
	}
	need := access(in, info.Kind)
	if r.p.Attr.Access&need == need {
		return true
	}
	r.invalid(reason.Detail{Reason: reason.QPAccess, Expected: uint64(need), Found: uint64(r.p.Attr.Access)})
	return false
}

// access is what a request of a kind needs of the queue pair and of the memory.
func access(in *machine.In, k ib.Kind) qp.Access {
	switch k {
	case ib.KindWrite, ib.KindAtomicWrite:
		return qp.RemoteWrite
	case ib.KindReadRequest:
		return qp.RemoteRead
	case ib.KindCompareSwap, ib.KindFetchAdd:
		return qp.RemoteAtomic
	case ib.KindFlush:
		return flushAccess(in.FETH.Placement)
	}
	return 0
}
