package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// checkLength checks the payload against the path MTU, the RETH and the receive (IBTA
// 9.7.4.1.6, C9-92), and the message against the longest that there is (IBTA 9.4.3, C9-94).
func (r *Responder) checkLength(in *machine.In, info *ib.Info) bool {
	n := uint32(len(in.Payload))
	if d := r.checkSegment(in, info, n); d.Reason != reason.None {
		r.invalid(d)
		return false
	}
	switch info.Kind {
	case ib.KindSend:
		if info.First {
			r.received = 0
			r.cursor.Restart()
		}
		switch got := r.received + uint64(n); {
		case got > machine.MaxMessage: // IBTA 9.4.3; a SEND announces no length that checkSegment could see
			r.invalid(reason.Detail{Reason: reason.LengthLimit, Expected: machine.MaxMessage, Found: got})
			return false
		case got > r.recv.Length:
			d := reason.Detail{Reason: reason.ReceiveTooSmall, Expected: r.recv.Length, Found: got}
			r.fatal(ib.NAKInvalidRequest, queue.LocLenErr, machine.EventQPReqErr, d)
			return false
		}
	case ib.KindWrite:
		return r.checkWriteLength(in, info, n)
	case ib.KindAtomicWrite:
		// IBTA A19: one word, which one packet brings.
		if in.RETH.Length != conn.AtomicLen || n != conn.AtomicLen {
			r.invalid(reason.Detail{Reason: reason.LengthBelowRETH, Expected: conn.AtomicLen, Found: uint64(min(n, in.RETH.Length))})
			return false
		}
	}
	return true
}

// checkSegment checks the n bytes of a packet, or of a train of packets: all but the last
// packet of a message are as long as the path MTU.
func (r *Responder) checkSegment(in *machine.In, info *ib.Info, n uint32) reason.Detail {
	full := r.mtu * uint32(in.PSNs())
	switch {
	case n > full:
		return reason.Detail{Reason: reason.LengthMTU, Expected: uint64(full), Found: uint64(n)}
	case !info.Last && n != full:
		return reason.Detail{Reason: reason.LengthShortSegment, Expected: uint64(full), Found: uint64(n)}
	case info.Last && (!info.First || in.Train > 1) && n <= full-r.mtu:
		return reason.Detail{Reason: reason.LengthShortSegment, Expected: uint64(full-r.mtu) + 1, Found: uint64(n)}
	case info.Headers&ib.HasRETH != 0 && in.RETH.Length > machine.MaxMessage:
		return reason.Detail{Reason: reason.LengthLimit, Expected: machine.MaxMessage, Found: uint64(in.RETH.Length)}
	}
	return reason.Detail{}
}

// checkWriteLength checks that the message ends where its RETH says.
func (t *target) checkWriteLength(in *machine.In, info *ib.Info, n uint32) bool {
	left := t.write.left
	if info.First {
		left = in.RETH.Length
	}
	switch {
	case info.Last && n < left:
		t.invalid(reason.Detail{Reason: reason.LengthBelowRETH, Expected: uint64(left), Found: uint64(n)})
	case info.Last && n > left, !info.Last && n >= left:
		t.invalid(reason.Detail{Reason: reason.LengthExceedsRETH, Expected: uint64(left), Found: uint64(n)})
	default:
		return true
	}
	return false
}
