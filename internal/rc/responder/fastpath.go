package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Continue executes a packet in the middle of a message, or a WRITE of one packet, if it
// passes all checks, and reports whether it did.
func (r *Responder) Continue(in *machine.In, info *ib.Info) bool {
	if in.Opcode == ib.RCWriteOnly {
		if !r.awaitsWrite(in) {
			return false
		}
		r.write.region = r.known
	} else if !r.awaits(in, info) {
		return false
	}
	r.nak = nak{}
	r.execute(in, info)
	return true
}

// awaitsWrite reports whether the packet is the next request, a WRITE of one packet to the
// region used last, and passes all checks.
func (r *Responder) awaitsWrite(in *machine.In) bool {
	n, known := uint32(len(in.Payload)), r.known
	return in.PSN == r.expected && r.held == nil && r.message == ib.KindNone && n-1 < r.mtu && n == in.RETH.Length &&
		r.p.Attr.Access&qp.RemoteWrite != 0 && known != nil && known.Key == in.RETH.RKey &&
		known.CheckRemote(r.p.PD, r.p.QPN, in.RETH.Addr, uint64(n), qp.RemoteWrite).Reason == reason.None
}

// awaits reports whether the packet is the one expected in the middle of a message and
// passes all checks.
func (r *Responder) awaits(in *machine.In, info *ib.Info) bool {
	n := uint32(len(in.Payload))
	need := access(in, info.Kind)
	if in.PSN != r.expected || r.held != nil || r.message != info.Kind || n != r.mtu || r.p.Attr.Access&need != need {
		return false
	}
	if info.Kind == ib.KindSend {
		return r.received+uint64(n) <= min(r.recv.Length, machine.MaxMessage)
	}
	return n < r.write.left && r.write.region != nil && r.write.region.Valid()
}
