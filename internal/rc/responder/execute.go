package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// execute runs a request that passed all checks. The answers to READs and atomics
// acknowledge them.
func (r *Responder) execute(in *machine.In, info *ib.Info) {
	in.Drop()
	switch info.Kind {
	case ib.KindSend:
		if r.place(in) {
			r.executed(in, info)
		}
	case ib.KindWrite:
		if r.writeMemory(in, info) {
			r.executed(in, info)
		}
	case ib.KindReadRequest:
		r.read(in)
	case ib.KindFlush:
		r.flush(in)
	default:
		r.atomic(in, info)
	}
}

// executed acknowledges a packet of a SEND or WRITE, and completes the receive at the end
// of the message.
func (r *Responder) executed(in *machine.In, info *ib.Info) {
	in.Dropped = 0
	r.opcode = in.Opcode
	r.expected = in.PSN.Add(in.PSNs())
	r.latest = r.expected.Add(-1)
	r.message = info.Kind
	if info.Last {
		r.message = ib.KindNone
		r.msn = r.msn.Next() // IBTA 9.7.7: one for each message; see read and atomic for theirs
	}
	if in.AckReq {
		r.ack = ack{due: true, psn: r.latest}
	}
	if info.Headers&ib.HasIETH != 0 && !r.invalidate(in) {
		return
	}
	if info.Last && r.taken && (info.Kind == ib.KindSend || info.Headers&ib.HasImmDt != 0) {
		r.complete(in, info, r.write.total)
	}
}

// place writes the payload of a SEND to the receive (IBTA 9.4.1).
func (r *Responder) place(in *machine.In) bool {
	d := r.cursor.Scatter(r.p.Memory, r.p.RecvPD, r.recv.SGEs, r.received, in.Payload)
	switch d.Reason {
	case reason.None:
		if !r.intact(in) {
			return false
		}
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

// read remembers a READ, whose responses read the memory. Its PSNs are those of its
// responses, and it counts as completed from now on (IBTA 9.7.7, C9-148).
func (r *Responder) read(in *machine.In) {
	r.msn = r.msn.Next()
	res := r.history.remember(in, r.msn)
	h := &in.RETH
	res.addr, res.rkey, res.length, res.to, res.region = h.Addr, h.RKey, h.Length, h.Length, r.write.region
	res.pd = r.p.PD
	if h.Length != 0 {
		res.count = (h.Length-1)>>r.shift + 1
	}
	r.write.region = nil
	r.accepted(in, res.count)
}

// accepted moves the expected PSN behind a READ or atomic.
func (r *Responder) accepted(in *machine.In, count uint32) {
	r.opcode = in.Opcode
	r.expected = in.PSN.Add(int(count))
	r.latest = in.PSN
}

// invalidate executes the second half of a SEND with invalidate. If the key cannot be
// invalidated, the message was executed nevertheless and is acknowledged; the error is
// reported on this side (IBTA 9.9.3, class J).
func (r *Responder) invalidate(in *machine.In) bool {
	d := r.p.Memory.Invalidate(in.IETH, r.p.PD, r.p.QPN)
	if d.Reason == reason.None {
		return true
	}
	r.c.Refuse(d)
	r.end(queue.RemInvReqErr, machine.EventQPAccessErr, d)
	return false
}
