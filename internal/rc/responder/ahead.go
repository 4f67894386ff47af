package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// ahead takes a request that arrives d PSNs too early, behind a lost one. From a softrdma
// peer the reorder buffer holds it. Otherwise it is dropped with one NAK, and then there
// is silence until the expected request comes (IBTA 9.7.5.2, class B).
func (r *Responder) ahead(in *machine.In, info *ib.Info, d int) {
	if r.hold(in, info, d) {
		return
	}
	r.c.Refuse(reason.Detail{Reason: reason.SequenceAhead, Expected: uint64(r.expected), Found: uint64(in.PSN)})
	if !r.nak.sent && !r.first.on {
		r.missing()
	}
}

// missing owes the NAK that makes the peer repeat everything from the expected request on.
func (r *Responder) missing() {
	r.nak.sent = true
	r.reject(ib.NAKSequence)
}

// AskAgain asks for the requests that were refused because of their port, without waiting for
// the peer's timer.
func (r *Responder) AskAgain() {
	if !r.nak.sent {
		r.missing()
	}
}

// Lost takes a request whose payload could not be read in memory. A gap that no later packet
// shows ends without the peer's timer: a NAK asks for the request at once.
func (r *Responder) Lost(in *machine.In, info *ib.Info) {
	switch end := in.PSN.Add(in.PSNs()); {
	case !info.Payload:
	case !end.After(r.expected):
		in.PSN, in.Train = end.Add(-1), 0
		r.duplicate(in, info)
	case in.PSN.After(r.expected) && r.nak.sent:
		r.c.Refuse(reason.Detail{Reason: reason.SequenceAhead, Expected: uint64(r.expected), Found: uint64(in.PSN)})
	default:
		r.missing()
	}
}

// hold keeps a request that arrives d PSNs too early in the reorder buffer, or one that
// awaits a receive, and reports whether it is there. The chain of checks takes it when its
// turn comes, so nothing of it shows before.
func (r *Responder) hold(in *machine.In, info *ib.Info, d int) bool {
	mayHold := r.first.on || r.c.Selective() && r.c.Trusted && !r.nak.rnr
	if r.store == nil || !mayHold || len(in.Payload) > int(r.mtu) {
		return false
	}
	n := uint32(1)
	if info.Kind == ib.KindReadRequest && in.RETH.Length > 0 {
		n = (in.RETH.Length-1)>>r.shift + 1
	}
	if most := conn.Span(r.mtu); uint32(d) > most || n > most || uint32(d)+n > most {
		return false
	}
	pool := r.store.pool
	if r.held == nil {
		r.held = pool.Buffer()
	}
	at, covered := r.held.Place(in.PSN)
	if covered {
		return r.heldAlready(in, info, at)
	}
	h := pool.Copy(in, n)
	if h == nil {
		r.returnEmpty()
		return false
	}
	h.Lender = nil
	if !in.Intact() {
		pool.Free(h)
		r.returnEmpty()
		return false
	}
	if d == 0 {
		r.c.Refuse(reason.Detail{Reason: reason.ReceiveAwaited, Expected: uint64(firstReceiveTime.Milliseconds()), Found: uint64(in.PSN)})
	} else {
		r.c.Refuse(reason.Detail{Reason: reason.SequenceHeld, Expected: uint64(r.expected), Found: uint64(in.PSN)})
	}
	if r.first.on {
		in.Dropped, h.Dropped = 0, len(h.Payload)
		r.counted += len(h.Payload)
	}
	if r.held.Insert(at, h) || in.AckReq {
		r.oweReport()
	}
	return true
}

// heldAlready takes a request that has the PSN of a held one, and reports whether it is
// its repetition.
func (r *Responder) heldAlready(in *machine.In, info *ib.Info, at int) bool {
	if h := r.held.Find(at, in.PSN); h != nil && h.Contradicts(in, info) {
		// One of the two is forged, and it is unknown which. Both are dropped, and the
		// peer sends everything again.
		r.c.Refuse(reason.Detail{Reason: reason.HeldContradicted, Expected: uint64(r.expected), Found: uint64(in.PSN)})
		r.DropHeld()
		return false
	}
	if !in.Copy {
		r.countDuplicate()
	}
	return true
}

// resume takes the held requests whose turn has come with packet in through the chain.
func (r *Responder) resume(in *machine.In) {
	before := r.expected
	for r.held != nil && !r.held.Empty() && !r.nak.due && !r.first.on && r.p.Attr.State != qp.Err {
		if r.held.First().PSN.After(r.expected) {
			break
		}
		h := r.held.Pop()
		switch info := h.Opcode.Info(); {
		case h.PSN == r.expected:
			r.process(&h.In, info)
			in.TookPart(&h.In)
		case !h.Copy:
			r.duplicate(&h.In, info) // a part of a READ, asked for before the READ came
		}
		r.store.pool.Free(h)
	}
	if r.expected != before || r.held != nil {
		r.oweReport()
	}
	r.returnEmpty()
}

// disown drops all held requests from a given one on: the peer never sent them.
func (r *Responder) disown(in *machine.In) {
	if n := r.held.Cut(in.PSN, r.store.pool); n > 0 {
		r.c.Refuse(reason.Detail{Reason: reason.HeldDisowned, Expected: uint64(in.PSN), Found: uint64(n)})
		r.sack.due = true
	}
	r.returnEmpty()
}

// returnEmpty returns an empty reorder buffer to the store.
func (r *Responder) returnEmpty() {
	if r.held != nil && r.held.Empty() {
		r.store.pool.Return(r.held)
		r.held = nil
	}
}

// DropHeld drops everything that is held.
func (r *Responder) DropHeld() {
	for r.held != nil && !r.held.Empty() {
		r.store.pool.Free(r.held.Pop())
	}
	r.returnEmpty()
	r.sack.due = false
	r.dropParts()
}

// A sack is the selective acknowledge that is owed to a softrdma peer.
type sack struct {
	due        bool
	duplicates uint32  // requests that came twice
	short      [4]byte // the payload without ranges
}

// countDuplicate counts a request that came twice, and tells the peer.
func (r *Responder) countDuplicate() {
	r.sack.duplicates++
	r.oweReport()
}

// oweReport owes the peer a selective acknowledge. While the expected request itself is
// held there is none: its ranges begin behind a request that is missing.
func (r *Responder) oweReport() {
	if r.c.Selective() && !r.first.on {
		r.sack.due = true
	}
}

// Report produces the acknowledge that says what is held.
func (r *Responder) Report(out *machine.Out) {
	r.sack.due = false
	var b []byte
	if r.held != nil {
		b = r.held.Report(r.sack.duplicates, r.expected)
	} else {
		b = ib.AppendDuplicates(r.sack.short[:0], r.sack.duplicates)
	}
	r.header(out, ib.RCSelectiveAck, r.expected.Add(-1))
	out.AETH = ib.AETH{Syndrome: r.creditCount(), MSN: r.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}
