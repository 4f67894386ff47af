package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// An XRC is one end of an extended reliable connection (annex A14): an initiator
// (qp.XRCSend), which has a requester only, or a target (qp.XRCRecv), which has a responder
// only. Its requests name the shared receive queue of the target's host that they are for.
//
// It is a QP inside. The opcodes of its packets are translated where they come and go.
// Losses are repaired as the standard has it, without selective acknowledges.
type XRC struct{ *QP }

// NewXRC makes the machine of an XRC queue pair, whose port has one of the two types.
func NewXRC(p *machine.Port, control congestion.Kind) XRC {
	return XRC{QP: New(p, Config{Control: control})}
}

// XRCTransport describes the extended reliable connection.
var XRCTransport = machine.Transport{
	Opcodes: ib.XRC, Connected: true, Acknowledged: true,
	Lane: func(int) machine.Maker {
		return func(p *machine.Port, o machine.Options) machine.Machine { return NewXRC(p, o.Control) }
	},
}

// Capabilities implements machine.Machine. QP's Follow and Continue are for RC's opcodes, and for
// packets without an XRCETH.
func (x XRC) Capabilities() machine.Capabilities {
	return machine.Capabilities{Receiver: x, InFlight: x, Unreachable: x, Revoker: x, Withdrawer: x}
}

// translated returns the opcode of the same operation if o is of one transport, and o if it
// is of none of the two, as that of a congestion notification.
func translated(o ib.Opcode, from, to ib.Transport) ib.Opcode {
	if o.Transport() == from {
		return o.Of(to)
	}
	return o
}

// Receive implements machine.Receiver.
func (x XRC) Receive(now time.Duration, in *machine.In) {
	was := in.Opcode
	if !x.takes(was) {
		x.c.Refuse(reason.Detail{Reason: reason.OpcodeUnsupported, Expected: uint64(ib.XRC), Found: uint64(was)})
		return
	}
	in.Opcode = translated(was, ib.XRC, ib.RC)
	x.QP.Receive(now, in)
	in.Opcode = was
}

// takes reports whether this end takes a kind of packet: an initiator takes answers, a target
// requests, and both congestion notifications.
func (x XRC) takes(o ib.Opcode) bool {
	i := o.Info()
	switch {
	case i == nil:
		return false
	case i.Kind == ib.KindCongestion:
		return true
	}
	return o.Transport() == ib.XRC && isAnswer(i.Kind) == (x.c.Port.Type == qp.XRCSend)
}

// Next implements machine.Machine. Each packet of a message has an XRCETH, so there are no
// trains.
func (x XRC) Next(now time.Duration, out *machine.Out) bool {
	longest := out.Longest
	out.Longest = 0
	more := x.QP.Next(now, out)
	out.Longest = longest
	if more {
		out.Opcode = translated(out.Opcode, ib.RC, ib.XRC)
	}
	return more
}

// Unreachable implements machine.UnreachableHandler.
func (x XRC) Unreachable(now time.Duration, h *ib.BTH, d reason.Detail) bool {
	inside := *h
	inside.Opcode = translated(h.Opcode, ib.XRC, ib.RC)
	return x.QP.Unreachable(now, &inside, d)
}

// Withdraw implements machine.Withdrawer.
func (x XRC) Withdraw() { x.resp.Withdraw() }

// address names the shared receive queue that a request is for.
func (r *unacked) address(at uint32, out *machine.Out) {
	if r.p.Type == qp.XRCSend {
		out.XRCETH.SRQN = r.p.SQ.At(at).SRQN
	}
}
