package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// Continue executes a packet in the middle of a message if it passes all checks, and
// reports whether it did.
func (r *Responder) Continue(in *machine.In, info *ib.Info) bool {
	if !r.awaits(in, info) {
		return false
	}
	r.nak = nak{}
	r.execute(in, info)
	return true
}

// awaits reports whether the packet is the one expected in the middle of a message and
// passes all checks.
func (r *Responder) awaits(in *machine.In, info *ib.Info) bool {
	n := uint32(len(in.Payload))
	need := access(info.Kind)
	if in.PSN != r.expected || r.held != nil || r.message != info.Kind || n != r.mtu || r.p.Attr.Access&need != need {
		return false
	}
	if info.Kind == ib.KindSend {
		return r.received+uint64(n) <= r.recv.Length
	}
	return n < r.write.left && r.write.region != nil && r.write.region.Valid()
}
