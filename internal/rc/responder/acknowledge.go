package responder

import (
	"slices"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// An ack is the acknowledge that is owed.
type ack struct {
	due bool
	psn psn.PSN
}

// lastResponse is the last READ response that was sent.
type lastResponse struct {
	sent bool
	upTo psn.PSN // behind it
}

// Owes reports whether there is anything to answer.
func (r *Responder) Owes() bool {
	return r.Streams() || r.nak.due || r.ack.due || r.sack.due
}

// OwesReport reports whether a selective acknowledge is owed.
func (r *Responder) OwesReport() bool { return r.sack.due }

// Streams reports whether answers with data are owed.
func (r *Responder) Streams() bool { return r.history.pending > 0 || len(r.parts) > 0 }

// OwesAckOnly reports whether nothing but an acknowledge is owed.
func (r *Responder) OwesAckOnly() bool { return r.ack.due && !r.nak.due && !r.Streams() }

// Next produces the next answer. READ responses and atomic acknowledges go first, oldest
// first, as each acknowledges all that is before it. One NAK or one coalesced acknowledge
// follows them (IBTA 9.7.5.1.2).
func (r *Responder) Next(out *machine.Out) bool {
	for len(r.parts) > 0 {
		if r.answerPart(out) {
			return true
		}
	}
	for r.history.pending > 0 {
		res := r.history.oldest()
		if res.atomic {
			r.answerAtomic(res, out)
			return true
		}
		if r.answerRead(res, out) {
			if res.pos == res.to {
				r.history.answered(res)
			}
			return true
		}
	}
	switch {
	case r.nak.due:
		r.nak.due, r.ack.due = false, false
		r.header(out, ib.RCAcknowledge, r.nak.psn)
		out.AETH = ib.AETH{Syndrome: r.nak.syndrome, MSN: r.msn}
	case r.ack.due:
		r.ack.due = false
		r.header(out, ib.RCAcknowledge, r.ack.psn)
		out.AETH = ib.AETH{Syndrome: r.creditCount(), MSN: r.msn}
	default:
		return false
	}
	return true
}

func (r *Responder) header(out *machine.Out, op ib.Opcode, p psn.PSN) {
	out.BTH = ib.BTH{Opcode: op, DestQPN: r.p.Attr.DestQPN, PSN: p}
	out.Path = &r.p.Attr.Path
	out.Pieces, out.Len = out.Pieces[:0], 0
	// This answer is the acknowledge of everything up to p.
	if r.ack.due && !r.ack.psn.After(p) {
		r.ack.due = false
	}
}

func (r *Responder) answerAtomic(res *resource, out *machine.Out) {
	op := ib.RCAtomicAcknowledge
	if res.opcode == ib.RCAtomicWrite || res.opcode == ib.RCFlush { // nothing to return (IBTA A19)
		op = ib.RCReadResponseOnly
	}
	r.header(out, op, res.first)
	out.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: res.msn}
	out.AtomicAck = res.value
	r.history.answered(res)
}

// answerRead produces the next response packet of a READ, or a train of them. It reads
// the memory when the packet is built, so the key must still be valid then. If it is not, the
// READ is given up, and no longer owed.
func (r *Responder) answerRead(res *resource, out *machine.Out) bool {
	p := res.first.Add(int(res.pos >> r.shift))
	n := min(res.to-res.pos, r.mtu*uint32(max(out.Longest, 1)))
	var b []byte
	if n > 0 {
		if res.region.Valid() {
			b = res.read(n)
		}
		if b == nil {
			r.abandon(res, p)
			return false
		}
	}
	op := ib.RCReadResponseMiddle
	last := res.pos+n == res.to
	switch first := res.pos == res.from; {
	case first && last:
		op = ib.RCReadResponseOnly
	case first:
		op = ib.RCReadResponseFirst
	case last:
		op = ib.RCReadResponseLast
	}
	r.header(out, op, p)
	out.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: res.msn}
	if n > 0 {
		out.Pieces = append(out.Pieces, b)
		out.Region = res.region
		out.Len = int(n)
		out.Train = int((n-1)>>r.shift + 1)
	}
	res.pos += n
	r.response = lastResponse{sent: true, upTo: p.Add(out.PSNs())}
	return true
}

// answerPart produces the next response packet of a part of a READ that was asked for
// once more. Parts go before everything else, as the peer waits for them.
func (r *Responder) answerPart(out *machine.Out) bool {
	p := &r.parts[0]
	if !r.answerRead(p, out) {
		return false
	}
	if p.pos == p.to {
		r.endPart()
	}
	return true
}

// endPart ends the first of the parts.
func (r *Responder) endPart() {
	r.parts = slices.Delete(r.parts, 0, 1)
	if len(r.parts) == 0 {
		r.dropParts()
	}
}

// abandon ends the answer of a READ whose memory went away, at PSN p. The peer may have had the
// answer to a duplicate already, and have told the program, which then took the memory away. If
// it still waits, it asks again (see readAgain).
func (r *Responder) abandon(res *resource, p psn.PSN) {
	d := reason.Detail{Reason: reason.KeyInvalid, Expected: 1}
	switch {
	case len(r.parts) > 0 && res == &r.parts[0]:
		r.c.Refuse(d)
		r.endPart()
	case res.again:
		r.c.Refuse(d)
		r.history.answered(res)
	default:
		r.giveUp(p, d)
	}
}

// giveUp ends a READ whose memory went away while it was answered. A NAK takes the place
// of the response (IBTA 9.7.5.1.3, 9.7.5.2.4), and nothing behind it is answered.
func (r *Responder) giveUp(p psn.PSN, d reason.Detail) {
	r.dropParts()
	r.history.drop()
	r.denied(d)
	r.nak.psn = p
}

// SentLately reports whether an answer with this PSN was sent recently: an acknowledge
// that is at most lately PSNs behind, or a READ response, whose number no window limits.
func (r *Responder) SentLately(p psn.PSN, lately int) bool {
	d := r.expected.Sub(p)
	if d > 0 && d <= lately {
		return true
	}
	d = r.response.upTo.Sub(p)
	return r.response.sent && d > 0 && uint32(d) <= conn.Span(r.mtu)
}
