package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// segment builds the next FPDU of the SEND or WRITE at sq.Cur.
func (r *requester) segment(now time.Duration, w *request, out *Out) bool {
	t := &r.q.tx
	header := iwarp.UntaggedLen
	if w.write() {
		header = iwarp.TaggedLen
	}
	n := w.length - r.off
	last := int64(n) <= int64(t.payload(header))
	if !last {
		n = uint32(t.payload(header))
	}
	inArena := header + iwarp.CRCLen + 4
	copied := n <= copyBelow || r.q.a.SendMarkers
	if copied {
		inArena += int(n)
	}
	if !t.room(out, inArena, r.p.SQ.MaxSGE()) {
		return false
	}
	var d reason.Detail
	r.pieces, d = r.payload(w, n)
	if d.Reason != reason.None {
		r.failLater(now, w, machine.LocalStatus(d), d)
		return false
	}
	s := r.segmentHeader(w, last)
	s.Length = uint16(header - iwarp.LengthLen + int(n))
	f := frame{done: noRequest, req: r.sq.Cur, off: r.off}
	if last && !w.is(queue.WriteImm) {
		f.done = r.sq.Cur
	}
	w.state |= started
	if copied {
		b := t.open(int(s.Length))
		at := s.Put(b)
		for _, p := range r.pieces {
			at += copy(b[at:], p)
		}
		t.seal(out, b, int(n), f)
	} else {
		s.Put(t.arena[t.used:])
		t.gathered(out, header, int(n), r.pieces, f)
	}
	r.off += n
	switch {
	case !last:
	case w.is(queue.WriteImm):
		w.state |= written
	default:
		r.forward()
	}
	return true
}

// payload returns the next n bytes of the message at sq.Cur.
func (r *requester) payload(w *request, n uint32) ([][]byte, reason.Detail) {
	if queue.Flags(w.flags)&queue.Inline != 0 {
		return append(r.pieces[:0], r.p.SQ.InlineRoom(r.sq.Cur)[r.off:r.off+n]), reason.Detail{}
	}
	return r.gather.Gather(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.sq.Cur), uint64(r.off), int(n), r.pieces[:0])
}

// segmentHeader returns the header of the next segment of the message at sq.Cur.
func (r *requester) segmentHeader(w *request, last bool) iwarp.Segment {
	q := r.p.SQ.At(r.sq.Cur)
	if w.write() {
		to := q.RDMA()
		return iwarp.Segment{Tagged: true, Last: last, Opcode: iwarp.Write, STag: to.RKey, TO: to.Addr + uint64(r.off)}
	}
	s := iwarp.Segment{Last: last, Opcode: iwarp.Send, Queue: iwarp.QueueSend, MO: r.off}
	if w.state&started == 0 {
		w.msn = r.msn[iwarp.QueueSend]
		r.msn[iwarp.QueueSend]++
	}
	s.MSN = w.msn
	solicited := queue.Flags(w.flags)&queue.Solicited != 0
	switch {
	case w.is(queue.SendInv) && solicited:
		s.Opcode = iwarp.SendSEInvalidate
	case w.is(queue.SendInv):
		s.Opcode = iwarp.SendInvalidate
	case solicited:
		s.Opcode = iwarp.SendSE
	}
	if w.is(queue.SendInv) {
		s.Invalidate = q.ImmInv
	}
	return s
}

// immediate builds the Immediate Data message after a WRITE (RFC 7306 6, 6.3), as Linux's
// drivers send a WRITE with immediate data.
func (r *requester) immediate(w *request, out *Out) bool {
	t := &r.q.tx
	const ulpdu = iwarp.UntaggedLen - iwarp.LengthLen + iwarp.ImmediateLen
	if !t.room(out, iwarp.FPDULen(ulpdu), 0) {
		return false
	}
	w.msn = r.msn[iwarp.QueueSend]
	r.msn[iwarp.QueueSend]++
	s := iwarp.Segment{Length: ulpdu, Last: true, Opcode: iwarp.Immediate, Queue: iwarp.QueueSend, MSN: w.msn}
	if queue.Flags(w.flags)&queue.Solicited != 0 {
		s.Opcode = iwarp.ImmediateSE
	}
	b := t.open(ulpdu)
	iwarp.PutImmediate(b[s.Put(b):], queue.NetworkOrder(r.p.SQ.At(r.sq.Cur).ImmInv))
	t.seal(out, b, 0, frame{done: r.sq.Cur})
	r.forward()
	return true
}

// ask builds the request of the READ or atomic at sq.Cur.
func (r *requester) ask(now time.Duration, w *request, out *Out) bool {
	t := &r.q.tx
	if !t.room(out, iwarp.FPDULen(iwarp.UntaggedLen+iwarp.AtomicLen), 0) {
		return false
	}
	q := r.p.SQ.At(r.sq.Cur)
	v := r.vacant()
	v.sges = append(v.sges[:0], r.p.SQ.SGEs(r.sq.Cur)...)
	// The answer is placed without another check of the rights.
	if d := r.sink(w, v.sges); d.Reason != reason.None {
		r.failLater(now, w, machine.LocalStatus(d), d)
		return false
	}
	w.state |= started
	w.msn = r.msn[iwarp.QueueRead]
	if w.is(queue.Read) {
		to := q.RDMA()
		m := iwarp.Read{Size: w.length, SourceSTag: to.RKey, SourceTO: to.Addr}
		// The request names one buffer to the peer. If there are several, the offsets of the
		// answer continue after the first, and the distance from there determines the place.
		for i := range v.sges {
			if v.sges[i].Length > 0 {
				m.SinkSTag, m.SinkTO = v.sges[i].LKey, v.sges[i].Addr
				break
			}
		}
		r.putRead(out, &m, ask{req: r.sq.Cur, stag: m.SinkSTag, to: m.SinkTO, length: w.length})
	} else {
		r.putAtomic(out, w, q)
	}
	r.forward()
	return true
}

// sink checks the scatter list of an answer: it must be writable, and as long as the request
// was when it was fetched.
func (r *requester) sink(w *request, list []memory.SGE) reason.Detail {
	var sum uint64
	for i := range list {
		sum += uint64(list[i].Length)
	}
	if sum < uint64(w.length) {
		return reason.Detail{Reason: reason.LocalLength, Expected: uint64(w.length), Found: sum}
	}
	return r.p.Memory.CheckList(r.p.PD, list, qp.LocalWrite)
}

// putAtomic builds an atomic request (RFC 7306 5.2.1).
func (r *requester) putAtomic(out *Out, w *request, q *queue.SendWQE) {
	t := &r.q.tx
	const ulpdu = iwarp.UntaggedLen - iwarp.LengthLen + iwarp.AtomicLen
	a := q.Atomic()
	s := iwarp.Segment{Length: ulpdu, Last: true, Opcode: iwarp.AtomicRequest, Queue: iwarp.QueueRead, MSN: w.msn}
	m := iwarp.Atomic{Op: iwarp.FetchAdd, ID: s.MSN, STag: a.RKey, TO: a.Addr, AddSwap: a.CompareAdd, CompareMask: ^uint64(0)}
	if w.is(queue.CompareSwap) {
		m.Op, m.AddSwap, m.AddSwapMask, m.Compare = iwarp.CompareSwap, a.Swap, ^uint64(0), a.CompareAdd
	}
	b := t.open(ulpdu)
	m.Put(b[s.Put(b):])
	r.remember(ask{req: r.sq.Cur, length: 8, msn: s.MSN, atomic: true})
	t.seal(out, b, 0, frame{done: noRequest, armed: true})
}
