package responder

import (
	"slices"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// answers are what is remembered of requests, and the answers that are owed.
type answers struct {
	target
	store    *Store       // nil without selective acknowledges
	history  history      // READs and atomics, see history.go
	parts    []resource   // parts of READs to be answered once more
	response lastResponse // the last READ response
	ack      ack
	posted   announcement // of receives, see credits.go
}

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
	return r.Streams() || r.nak.due || r.ack.due || r.OwesReport()
}

// OwesReport reports whether a selective acknowledge or telemetry is owed.
func (o *reordering) OwesReport() bool { return o.sack.due || o.echoDue() }

// Streams reports whether answers with data are owed.
func (a *answers) Streams() bool { return a.history.pending > 0 || len(a.parts) > 0 }

// OwesAckOnly reports whether nothing but an acknowledge is owed.
func (a *answers) OwesAckOnly() bool { return a.ack.due && !a.nak.due && !a.Streams() }

// Next produces the next answer. READ responses and atomic acknowledges go first, oldest
// first, as each acknowledges all that is before it. One NAK or one coalesced acknowledge
// follows them (IBTA 9.7.5.1.2).
func (a *answers) Next(out *machine.Out) bool {
	for len(a.parts) > 0 {
		if a.answerPart(out) {
			return true
		}
	}
	for a.history.pending > 0 {
		res := a.history.oldest()
		if res.atomic {
			a.answerAtomic(res, out)
			return true
		}
		if a.answerRead(res, out) {
			if res.pos == res.to {
				a.history.answered(res)
			}
			return true
		}
	}
	switch {
	case a.nak.due && a.nak.tell:
		a.tellReason(out)
	case a.nak.due:
		a.nak.due, a.ack.due = false, false
		a.header(out, ib.RCAcknowledge, a.nak.psn)
		out.AETH = ib.AETH{Syndrome: a.nak.syndrome, MSN: a.msn}
	case a.ack.due:
		a.ack.due = false
		a.header(out, ib.RCAcknowledge, a.ack.psn)
		out.AETH = ib.AETH{Syndrome: a.creditCount(), MSN: a.msn}
	default:
		return false
	}
	return true
}

func (a *answers) header(out *machine.Out, op ib.Opcode, p psn.PSN) {
	out.BTH = ib.BTH{Opcode: op, DestQPN: a.p.Attr.DestQPN, PSN: p}
	out.Path = &a.p.Attr.Path
	out.Pieces, out.Len = out.Pieces[:0], 0
	// This answer is the acknowledge of everything up to p.
	if a.ack.due && !a.ack.psn.After(p) {
		a.ack.due = false
	}
}

func (a *answers) answerAtomic(res *resource, out *machine.Out) {
	op := ib.RCAtomicAcknowledge
	if res.opcode == ib.RCAtomicWrite || res.opcode == ib.RCFlush { // nothing to return (IBTA A19)
		op = ib.RCReadResponseOnly
	}
	a.header(out, op, res.first)
	out.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: res.msn}
	out.AtomicAck = res.value
	a.history.answered(res)
}

// answerRead produces the next response packet of a READ, or a train of them. It reads
// the memory when the packet is built, so the key must still be valid then. If it is not, the
// READ is given up, and no longer owed.
func (a *answers) answerRead(res *resource, out *machine.Out) bool {
	p := res.first.Add(int(res.pos >> a.shift))
	n := min(res.to-res.pos, a.mtu*uint32(max(out.Longest, 1)))
	var b []byte
	if n > 0 {
		if res.region.Valid() {
			b = res.read(n)
		}
		if b == nil {
			a.abandon(res, p)
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
	a.header(out, op, p)
	out.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: res.msn}
	if n > 0 {
		out.Pieces = append(out.Pieces, b)
		out.Region = res.region
		out.Len = int(n)
		out.Train = int((n-1)>>a.shift + 1)
	}
	res.pos += n
	a.response = lastResponse{sent: true, upTo: p.Add(out.PSNs())}
	return true
}

// answerPart produces the next response packet of a part of a READ that was asked for
// once more. Parts go before everything else, as the peer waits for them.
func (a *answers) answerPart(out *machine.Out) bool {
	p := &a.parts[0]
	if !a.answerRead(p, out) {
		return false
	}
	if p.pos == p.to {
		a.endPart()
	}
	return true
}

// endPart ends the first of the parts.
func (a *answers) endPart() {
	a.parts = slices.Delete(a.parts, 0, 1)
	if len(a.parts) == 0 {
		a.dropParts()
	}
}

// abandon ends the answer of a READ whose memory went away, at PSN p. The peer may have had the
// answer to a duplicate already, and have told the program, which then took the memory away. If
// it still waits, it asks again (see readAgain).
func (a *answers) abandon(res *resource, p psn.PSN) {
	d := reason.Detail{Reason: reason.KeyInvalid, Expected: 1}
	switch {
	case len(a.parts) > 0 && res == &a.parts[0]:
		a.c.Refuse(d)
		a.endPart()
	case res.again:
		a.c.Refuse(d)
		a.history.answered(res)
	default:
		a.giveUp(p, d)
	}
}

// giveUp ends a READ whose memory went away while it was answered. A NAK takes the place
// of the response (IBTA 9.7.5.1.3, 9.7.5.2.4), and nothing behind it is answered.
func (a *answers) giveUp(p psn.PSN, d reason.Detail) {
	a.dropParts()
	a.history.drop()
	a.denied(d)
	a.nak.psn = p
}

// SentLately reports whether an answer with this PSN was sent recently: an acknowledge
// that is at most lately PSNs behind, or a READ response, whose number no window limits.
func (a *answers) SentLately(p psn.PSN, lately int) bool {
	d := a.expected.Sub(p)
	if d > 0 && d <= lately {
		return true
	}
	d = a.response.upTo.Sub(p)
	return a.response.sent && d > 0 && uint32(d) <= conn.Span(a.mtu)
}
