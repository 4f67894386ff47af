package rc

import (
	"encoding/binary"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// execute carries out a request that passed all checks.
func (r *responder) execute(in *machine.In, info *ib.Info) {
	switch info.Kind {
	case ib.KindSend:
		if !r.place(in) {
			return
		}
	case ib.KindWrite:
		if info.First {
			r.addr, r.left, r.total = in.RETH.Addr, in.RETH.Length, in.RETH.Length
		}
		if !r.write(in.Payload) {
			return
		}
	case ib.KindReadRequest:
		r.holdRead(in)
		return
	default:
		r.atomic(in, info)
		return
	}
	r.opcode = in.Opcode
	r.expected = in.PSN.Add(in.PSNs())
	r.latest = r.expected.Add(-1)
	r.message = info.Kind
	if info.Last {
		r.message = ib.KindNone
		r.msn = r.msn.Next()
	}
	if in.AckReq {
		r.ack, r.ackPSN = true, r.expected.Add(-1)
	}
	if info.Headers&ib.HasIETH != 0 && !r.invalidate(in) {
		return
	}
	if info.Last && r.taken {
		r.complete(in, info)
	}
}

// place puts the payload of a SEND into the receive (IBTA 9.4.1).
func (r *responder) place(in *machine.In) bool {
	d := r.cursor.Scatter(r.p.Memory, r.p.PD, r.recv.SGEs, r.received, in.Payload)
	switch d.Reason {
	case reason.None:
		r.received += uint64(len(in.Payload))
		return true
	case reason.LocalLength:
		r.fatal(ib.NAKInvalidRequest, queue.LocLenErr, machine.EventQPReqErr, d)
	default:
		// IBTA 9.9.3, class A: the fault is on this side.
		r.fatal(ib.NAKRemoteOperational, queue.LocProtErr, machine.EventQPReqErr, d)
	}
	return false
}

// write puts the payload of a WRITE into its region.
func (r *responder) write(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if d := r.region.Put(r.addr, b); d.Reason != reason.None {
		r.denied(d)
		return false
	}
	r.addr += uint64(len(b))
	r.left -= uint32(len(b))
	return true
}

// invalidate carries out the second half of a SEND with invalidate. Where the
// key cannot be invalidated, the message was executed nevertheless and is
// acknowledged; the error is this side's to report (IBTA 9.9.3, class J).
func (r *responder) invalidate(in *machine.In) bool {
	d := r.p.Memory.Invalidate(in.IETH, r.p.PD, r.p.QPN)
	if d.Reason == reason.None {
		return true
	}
	r.q.refuse(d)
	r.end(queue.RemInvReqErr, machine.EventQPAccessErr, d)
	return false
}

// complete completes the receive of a SEND, or of a WRITE with immediate data
// (IBTA 11.4.2.1).
func (r *responder) complete(in *machine.In, info *ib.Info) {
	r.taken = false
	c := r.q.Completion(r.recv.WRID, queue.WCRecv, queue.Success, reason.Detail{})
	c.ByteLen = uint32(r.received)
	if info.Kind == ib.KindWrite {
		c.Op, c.ByteLen = queue.WCRecvRDMAImm, r.total
	}
	switch {
	case info.Headers&ib.HasImmDt != 0:
		c.Flags, c.ImmInv = queue.WCImm, queue.NetworkOrder(in.Imm)
	case info.Headers&ib.HasIETH != 0:
		c.Flags, c.ImmInv = queue.WCWithInv, in.IETH
	}
	c.PortNum = r.p.Attr.Port
	if in.Solicited {
		c.Solicited = 1
	}
	r.p.RecvCQ.Push(c)
}

// atomic carries out an atomic with the processor's own atomics, so that it is
// one also against this host's programs (IBTA 9.4.5). The original value is
// kept for a duplicate.
func (r *responder) atomic(in *machine.In, info *ib.Info) {
	h := &in.AtomicETH
	var old uint64
	addr := h.Addr
	if info.Kind == ib.KindAtomicWrite {
		addr = in.RETH.Addr
	}
	ok := addr&(atomicLen-1) == 0
	switch {
	case !ok:
	case info.Kind == ib.KindAtomicWrite:
		ok = r.region.SetWord(addr, binary.NativeEndian.Uint64(in.Payload))
	case info.Kind == ib.KindFetchAdd:
		old, ok = r.region.FetchAdd(h.Addr, h.SwapAdd)
	default:
		old, ok = r.region.CompareSwap(h.Addr, h.Compare, h.SwapAdd)
	}
	if !ok {
		// IBTA 9.4.5: the address is aligned; Linux answers this NAK as well.
		r.invalid(reason.Detail{Reason: reason.AtomicAlignment, Expected: atomicLen, Found: addr})
		return
	}
	r.msn = r.msn.Next()
	res := r.remember(in)
	res.atomic, res.value = true, old
	r.region = nil
	r.accepted(in, 1)
}
