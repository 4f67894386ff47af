package machine

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Fault returns why a packet of n bytes that was parsed with a fault is refused; the zero
// Detail if there is none.
func (in *In) Fault(f ib.Fault, n int) reason.Detail {
	switch f {
	case ib.OK:
		return reason.Detail{}
	case ib.Short:
		return reason.Detail{Reason: reason.PacketShort, Expected: uint64(in.HeaderLen() + ib.ICRCLen), Found: uint64(n)}
	case ib.BadOpcode:
		return reason.Detail{Reason: reason.PacketOpcode, Expected: 256, Found: uint64(in.Opcode)}
	case ib.BadVersion:
		return reason.Detail{Reason: reason.PacketVersion, Found: uint64(in.Version)}
	case ib.ExtraPayload:
		return reason.Detail{Reason: reason.PacketExtraPayload, Found: uint64(len(in.Payload))}
	}
	return reason.Detail{Reason: reason.PacketPad, Expected: 4, Found: uint64(n)}
}
