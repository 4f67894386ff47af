package rc

import (
	"slices"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// owes tells whether there is anything to answer.
func (r *responder) owes() bool {
	return r.pending > 0 || r.nak || r.ack || r.tell || len(r.parts) > 0
}

// streams tells whether answers with data are owed.
func (r *responder) streams() bool { return r.pending > 0 || len(r.parts) > 0 }

// acknowledges tells whether nothing but an acknowledge is owed.
func (r *responder) acknowledges() bool { return r.ack && !r.nak && !r.streams() }

// next produces the next answer. READ responses and atomic acknowledges go
// first, oldest first, as each acknowledges all that is before it; what is
// owed behind them is one NAK or one coalesced acknowledge (IBTA 9.7.5.1.2).
func (r *responder) next(out *machine.Out) bool {
	if len(r.parts) > 0 && r.answerPart(out) {
		return true
	}
	if r.pending > 0 {
		res := r.oldest()
		if res.atomic {
			r.answerAtomic(res, out)
			return true
		}
		if r.answerRead(res, out) {
			if res.pos == res.to {
				r.answered(res)
			}
			return true
		}
	}
	switch {
	case r.nak:
		r.nak, r.ack = false, false
		r.header(out, ib.RCAcknowledge, r.nakPSN)
		out.AETH = ib.AETH{Syndrome: r.syndrome, MSN: r.msn}
	case r.ack:
		r.ack = false
		r.header(out, ib.RCAcknowledge, r.ackPSN)
		out.AETH = ib.AETH{Syndrome: r.credits(), MSN: r.msn}
	default:
		return false
	}
	return true
}

func (r *responder) header(out *machine.Out, op ib.Opcode, p psn.PSN) {
	out.BTH = ib.BTH{Opcode: op, DestQPN: r.p.Attr.DestQPN, PSN: p}
	out.Path = &r.p.Attr.Path
	out.Pieces, out.Len = out.Pieces[:0], 0
	// An acknowledge owed for what this answer acknowledges is paid with it.
	if r.ack && !r.ackPSN.After(p) {
		r.ack = false
	}
}

func (r *responder) answerAtomic(res *resource, out *machine.Out) {
	op := ib.RCAtomicAcknowledge
	if res.opcode == ib.RCAtomicWrite { // it has no original value to give (IBTA A19)
		op = ib.RCReadResponseOnly
	}
	r.header(out, op, res.first)
	out.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: res.msn}
	out.AtomicAck = res.value
	r.answered(res)
}

func (r *responder) answered(res *resource) {
	res.pending, res.region = false, nil
	r.pending--
	r.current = -1
}

// answerRead produces the next response packet of a READ, or a train of them. The
// memory is read
// when the packet is made, so its key must still be good then.
func (r *responder) answerRead(res *resource, out *machine.Out) bool {
	p := res.first.Add(int(res.pos >> r.shift))
	n := min(res.to-res.pos, r.mtu*uint32(max(out.Longest, 1)))
	var b []byte
	if n > 0 {
		if res.region.Valid() {
			b = res.read(n)
		}
		if b == nil {
			r.giveUp(p, reason.Detail{Reason: reason.KeyInvalid, Expected: 1})
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
		out.Len = int(n)
		out.Train = int((n-1)>>r.shift + 1)
	}
	res.pos += n
	r.responded, r.answeredUpTo = true, p.Add(out.PSNs())
	return true
}

// answerPart produces the next response packet of a part of a READ that was
// asked for once more. Parts go before everything else, as the peer waits for
// them to go on.
func (r *responder) answerPart(out *machine.Out) bool {
	p := &r.parts[0]
	if !r.answerRead(p, out) {
		return false
	}
	if p.pos != p.to {
		return true
	}
	if r.parts = slices.Delete(r.parts, 0, 1); len(r.parts) == 0 {
		r.dropParts()
	}
	return true
}

// dropParts forgets the parts.
func (r *responder) dropParts() {
	if r.parts != nil {
		clear(r.parts)
		put(&r.q.store.parts, r.parts[:0])
		r.parts = nil
	}
}

// giveUp ends a READ whose memory went away while it was answered: the NAK
// stands in the place of the response (IBTA 9.7.5.1.3, 9.7.5.2.4), and nothing
// behind it is answered.
func (r *responder) giveUp(p psn.PSN, d reason.Detail) {
	r.pending, r.current = 0, -1
	r.dropParts()
	for i := range r.ring {
		r.ring[i].pending, r.ring[i].region = false, nil
	}
	r.denied(d)
	r.nakPSN = p
}
