package rc

import (
	"bytes"
	"slices"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// span is how many PSNs from the one expected on a responder keeps requests of,
// and a requester has in flight: 4 MiB of them and 4096 at most. Both ends of a
// connection know the path MTU, and so each other's span.
func span(mtu uint32) uint32 { return min(4<<20/mtu, 4096) }

// toldEvery is after how many more requests that are held the peer is told
// so, beside where a range of them begins or ends.
const toldEvery = 4

// A reorder holds requests that came behind a lost one.
type reorder struct {
	runs []run // by PSN
	news uint8 // requests held since the peer was told
	told [ib.SelectiveAckLen + ib.MaxRanges*ib.RangeLen]byte
}

// A run is a list of requests without a gap.
type run struct {
	first, end psn.PSN
	head, tail *held
}

// hold keeps a request that came distance d too early, where the peer knows of
// selective acknowledges and there is room. The chain of checks takes it when
// its turn comes, so that nothing of it shows before.
func (r *responder) hold(in *machine.In, info *ib.Info, d int) bool {
	s := r.q.store
	if s == nil || !r.q.selective() || !r.q.trusted || r.notReady || len(in.Payload) > int(r.mtu) {
		return false
	}
	n := uint32(1)
	if info.Kind == ib.KindReadRequest && in.RETH.Length > 0 {
		n = (in.RETH.Length-1)>>r.shift + 1
	}
	if most := span(r.mtu); uint32(d) > most || n > most || uint32(d)+n > most {
		return false
	}
	if r.order == nil {
		r.order = s.order()
	}
	i := r.order.place(in.PSN)
	if i >= 0 && in.PSN.Before(r.order.runs[i].end) {
		if h := r.order.runs[i].find(in.PSN); h != nil && h.contradicts(in, info) {
			// One of the two is forged, and it is unknown which. Both are dropped, and the
			// peer sends everything again.
			r.q.refuse(reason.Detail{Reason: reason.HeldContradicted, Expected: uint64(r.expected), Found: uint64(in.PSN)})
			r.forget()
			return false
		}
		if !in.Copy {
			r.again() // held already
		}
		return true
	}
	h := s.keep(in, n)
	if h == nil {
		r.emptied()
		return false
	}
	r.q.refuse(reason.Detail{Reason: reason.SequenceHeld, Expected: uint64(r.expected), Found: uint64(in.PSN)})
	if r.order.insert(i, h) || in.AckReq {
		r.tell = true
	}
	if r.order.news++; r.order.news >= toldEvery {
		r.tell = true
	}
	return true
}

// find is the request of a run that has the PSN p, nil for none.
func (u *run) find(p psn.PSN) *held {
	for h := u.head; h != nil && !h.PSN.After(p); h = h.next {
		if h.PSN == p {
			return h
		}
	}
	return nil
}

// contradicts reports whether a request cannot be a repetition of the held one,
// though it has its PSN. A READ may be asked for in part (IBTA 9.7.5.1).
func (h *held) contradicts(in *machine.In, info *ib.Info) bool {
	has := info.Headers
	return h.Opcode != in.Opcode || !bytes.Equal(h.Payload, in.Payload) ||
		has&ib.HasRETH != 0 && (h.RETH.Addr != in.RETH.Addr || h.RETH.RKey != in.RETH.RKey ||
			info.Kind != ib.KindReadRequest && h.RETH.Length != in.RETH.Length) ||
		has&ib.HasAtomicETH != 0 && h.AtomicETH != in.AtomicETH ||
		has&ib.HasImmDt != 0 && h.Imm != in.Imm || has&ib.HasIETH != 0 && h.IETH != in.IETH
}

// place is the last run that begins at p or before it, -1 for none. New
// requests mostly come at the end.
func (o *reorder) place(p psn.PSN) int {
	i := len(o.runs) - 1
	for i >= 0 && p.Before(o.runs[i].first) {
		i--
	}
	return i
}

// insert puts a request behind run i, and tells whether a range begins or ends
// with it.
func (o *reorder) insert(i int, h *held) bool {
	end := h.PSN.Add(int(h.count))
	next := i+1 < len(o.runs) && o.runs[i+1].first == end
	switch {
	case i >= 0 && o.runs[i].end == h.PSN:
		u := &o.runs[i]
		u.tail.next, u.tail, u.end = h, h, end
		if next {
			v := &o.runs[i+1]
			u.tail.next, u.tail, u.end = v.head, v.tail, v.end
			o.runs = slices.Delete(o.runs, i+1, i+2)
		}
		return next
	case next:
		v := &o.runs[i+1]
		h.next, v.head, v.first = v.head, h, h.PSN
		return true
	}
	o.runs = slices.Insert(o.runs, i+1, run{first: h.PSN, end: end, head: h, tail: h})
	return true
}

// pop takes the first request off.
func (o *reorder) pop() *held {
	u := &o.runs[0]
	h := u.head
	u.head, u.first = h.next, h.PSN.Add(int(h.count))
	if u.head == nil {
		o.runs = slices.Delete(o.runs, 0, 1)
	}
	return h
}

// resume takes the requests whose turn has come through the chain.
func (r *responder) resume() {
	before := r.expected
	for r.order != nil && len(r.order.runs) > 0 && !r.nak && r.p.Attr.State != qp.Err {
		h := r.order.runs[0].head
		if h.PSN.After(r.expected) {
			break
		}
		h = r.order.pop()
		switch info := h.Opcode.Info(); {
		case h.PSN == r.expected:
			r.carryOut(&h.In, info)
		case !h.Copy:
			r.duplicate(&h.In, info) // a part of a READ, asked for before the READ came
		}
		r.q.store.give(h)
	}
	if r.expected != before || r.order != nil {
		r.tell = true
	}
	r.emptied()
}

// emptied gives the lists back when nothing is held any more.
func (r *responder) emptied() {
	if r.order != nil && len(r.order.runs) == 0 {
		put(&r.q.store.orders, r.order)
		r.order = nil
	}
}

// forget drops everything that is held.
func (r *responder) forget() {
	for r.order != nil && len(r.order.runs) > 0 {
		r.q.store.give(r.order.pop())
	}
	r.emptied()
	r.tell = false
	r.dropParts()
}

// again counts a request that came twice, and tells the peer.
func (r *responder) again() {
	r.doubles++
	r.tell = true
}

// selectiveAck produces the acknowledge that tells what is held.
func (r *responder) selectiveAck(out *machine.Out) {
	r.tell = false
	b := ib.AppendDuplicates(r.short[:0], r.doubles)
	if o := r.order; o != nil {
		o.news = 0
		b = ib.AppendDuplicates(o.told[:0], r.doubles)
		at := r.expected
		for _, u := range o.runs[:min(len(o.runs), ib.MaxRanges)] {
			if u.first.Before(at) {
				continue // a probe of a READ that came as well
			}
			b = ib.AppendRange(b, uint16(u.first.Sub(at)), uint16(u.end.Sub(u.first)))
			at = u.end
		}
	}
	r.header(out, ib.RCSelectiveAck, r.expected.Add(-1))
	out.AETH = ib.AETH{Syndrome: r.credits(), MSN: r.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}
