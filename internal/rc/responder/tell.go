package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// A softrdma peer is told why its request is refused, in a packet right before the NAK. If that
// packet is lost, the NAK stands for itself. Nothing repeats it.

// told is the reason that is to be sent to the peer, or was sent last.
type told struct {
	psn     psn.PSN // of the refused request
	detail  reason.Detail
	payload [own.ReasonLen]byte
}

// tell owes the peer the reason of the NAK that is owed, unless it had the same before: a request
// that waits for a receive is refused many times.
func (f *refusals) tell(d reason.Detail) {
	t := f.reason
	if !f.c.Selective() || f.c.KeepReasons || t != nil && t.psn == f.expected && t.detail == d {
		return
	}
	if t == nil { // few queue pairs ever refuse a request
		t = new(told)
		f.reason = t
	}
	t.psn, t.detail = f.expected, d
	f.nak.tell = true
}

// tellReason produces the packet with the reason of the NAK that is owed.
func (a *answers) tellReason(out *machine.Out) {
	a.nak.tell = false
	d := a.reason.detail.Outward()
	r := own.Reason{Number: uint32(d.Reason), Expected: d.Expected, Found: d.Found}
	b := r.Append(a.reason.payload[:0])
	due := a.ack.due // not answered by a packet that may be lost, and acknowledges nothing
	a.header(out, ib.RCReason, a.nak.psn)
	a.ack.due = due
	out.AETH = ib.AETH{Syndrome: a.nak.syndrome, MSN: a.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}
