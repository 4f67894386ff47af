package responder

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/reorder"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// reordering holds requests between softrdma peers: those behind a lost one, and those of the first
// message while it waits for a receive.
type reordering struct {
	answers
	held    *reorder.Buffer // nil if nothing is held
	sack    sack
	wide    wide
	echo    *echo // nil if there was no telemetry
	first   firstReceive
	counted int // bytes of payload counted when they were held for the first receive
}

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
func (o *reordering) hold(in *machine.In, info *ib.Info, d int) bool {
	mayHold := o.first.on || o.c.Selective() && o.c.Trusted && !o.nak.rnr
	if o.store == nil || !mayHold || len(in.Payload) > int(o.mtu) {
		return false
	}
	n := uint32(1)
	if info.Kind == ib.KindReadRequest && in.RETH.Length > 0 {
		n = (in.RETH.Length-1)>>o.shift + 1
	}
	if most := o.span(); uint32(d) > most || n > most || uint32(d)+n > most {
		return false
	}
	pool := o.store.pool
	if o.held == nil {
		o.held = pool.Buffer()
	}
	at, covered := o.held.Place(in.PSN)
	if covered {
		return o.heldAlready(in, info, at)
	}
	if !o.held.Fits(at, in.PSN, n) {
		return false
	}
	h := pool.Copy(in, n)
	if h == nil {
		o.returnEmpty()
		return false
	}
	h.Lender, h.Hops = nil, nil
	if !in.Intact() {
		pool.Free(h)
		o.returnEmpty()
		return false
	}
	if d == 0 {
		o.c.Refuse(reason.Detail{Reason: reason.ReceiveAwaited, Expected: uint64(firstReceiveTime.Milliseconds()), Found: uint64(in.PSN)})
	} else {
		o.c.Refuse(reason.Detail{Reason: reason.SequenceHeld, Expected: uint64(o.expected), Found: uint64(in.PSN)})
	}
	if o.first.on {
		in.Dropped, h.Dropped = 0, len(h.Payload)
		o.counted += len(h.Payload)
	}
	if o.held.Insert(at, h) || in.AckReq {
		o.oweReport()
	}
	return true
}

// heldAlready takes a request that has the PSN of a held one, and reports whether it is
// its repetition.
func (o *reordering) heldAlready(in *machine.In, info *ib.Info, at int) bool {
	if h := o.held.Find(at, in.PSN); h != nil && h.Contradicts(in, info) {
		// One of the two is forged, and it is unknown which. Both are dropped, and the
		// peer sends everything again.
		o.c.Refuse(reason.Detail{Reason: reason.HeldContradicted, Expected: uint64(o.expected), Found: uint64(in.PSN)})
		o.DropHeld()
		return false
	}
	if !in.Copy {
		o.countDuplicate()
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
func (o *reordering) disown(in *machine.In) {
	if n := o.held.Cut(in.PSN, o.store.pool); n > 0 {
		o.c.Refuse(reason.Detail{Reason: reason.HeldDisowned, Expected: uint64(in.PSN), Found: uint64(n)})
		o.sack.due = true
	}
	o.returnEmpty()
}

// returnEmpty returns an empty reorder buffer to the store.
func (o *reordering) returnEmpty() {
	if o.held != nil && o.held.Empty() {
		o.store.pool.Return(o.held)
		o.held = nil
	}
}

// DropHeld drops everything that is held.
func (o *reordering) DropHeld() {
	if o.held != nil {
		o.held.Drop(o.store.pool)
	}
	o.returnEmpty()
	o.sack.due = false
	o.endEcho()
	o.dropParts()
}

// A sack is the selective acknowledge that is owed to a softrdma peer.
type sack struct {
	due        bool
	duplicates uint32               // requests that came twice
	short      [own.WideAckLen]byte // the payload without ranges
}

// countDuplicate counts a request that came twice, and tells the peer.
func (o *reordering) countDuplicate() {
	o.sack.duplicates++
	o.oweReport()
}

// oweReport owes the peer a selective acknowledge. While the expected request itself is
// held there is none: its ranges begin behind a request that is missing.
func (o *reordering) oweReport() {
	if o.c.Selective() && !o.first.on {
		o.sack.due = true
	}
}

// Report produces the acknowledge that says what is held, or what switches said.
func (o *reordering) Report(now time.Duration, out *machine.Out) {
	if !o.sack.due && o.echoDue() {
		o.reportEcho(out)
		return
	}
	o.sack.due = false
	if o.wide.asked {
		o.reportWide(now, out)
		return
	}
	var b []byte
	if o.held != nil {
		b = o.held.Report(o.sack.duplicates, o.expected)
	} else {
		b = own.AppendDuplicates(o.sack.short[:0], o.sack.duplicates)
	}
	o.header(out, ib.RCSelectiveAck, o.expected.Add(-1))
	out.AETH = ib.AETH{Syndrome: o.creditCount(), MSN: o.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}
