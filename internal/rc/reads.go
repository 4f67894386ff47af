package rc

import (
	"math"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
)

// reads counts the READs and atomics in flight, and what they bring.
type reads struct {
	outstanding uint16             // sent and not completed
	landed      uint16             // of those, answered except for what is missing
	due         uint32             // bytes that they will bring
	brought     uint32             // bytes that they brought, as far as the control does not know
	ctl         congestion.Control // of what they bring, made with the first
	first       bool               // none was answered yet, so ctl does not know the path

	kept  uint16        // that the peer remembers on a long path, if that is more than usual
	until time.Duration // when it may have forgotten that
	renew time.Duration // when to ask it again
}

// firstReads is how many bytes READs may bring before the first answer has shown the path, with a
// control that may model it. On a long path more would overflow a queue, and a model that begins with
// losses begins slowly.
const firstReads = 128 << 10

// keptTime is how long the peer's word about kept is relied upon. The responder remembers them for longer.
const keptTime = 5 * time.Second

// mayAsk reports whether another READ or atomic may be sent (IBTA 9.4.4). A softrdma responder remembers more of
// them than agreed: some while an answer is missing, and on a long path as many as it has said.
func (r *sender) mayAsk(now time.Duration) bool {
	d, agreed := &r.reads, uint16(r.p.Attr.MaxRdAtomic)
	if d.outstanding-d.landed < agreed && d.outstanding < conn.KeepFactor*agreed {
		return true
	}
	if !r.farReads() {
		return false
	}
	most := conn.KeepFactor * agreed
	if now < d.until {
		most = max(most, d.kept)
	}
	return d.outstanding < most
}

// farReads reports whether READs go to a softrdma responder on a long path.
func (r *sender) farReads() bool {
	return r.reads.ctl != nil && r.reads.ctl.Paces() && r.q.c.Selective()
}

// wantsKept reports whether a READ is to ask how many the peer remembers: once in a round trip, while many are
// outstanding.
func (r *sender) wantsKept(now time.Duration) bool {
	d := &r.reads
	if d.outstanding <= conn.KeepFactor*uint16(r.p.Attr.MaxRdAtomic)/2 || now < d.renew || !r.farReads() {
		return false
	}
	d.renew = now + r.recovery.trips.least()
	return true
}

// keeps takes what the peer says that it remembers.
func (r *reads) keeps(now time.Duration, n uint32) {
	r.kept, r.until = uint16(min(n, conn.MaxKept)), now+keptTime
}

// wholeReads is how many bytes READs in flight may bring through memory. The requester copies all
// that has come before it asks for more. With 6 MiB the peer had answered everything by then, and
// slept.
const wholeReads = 16 << 20

// fitsDue reports whether n bytes may be added to what READs in flight bring. They arrive
// as one burst in the buffer of this side's own socket, whose size is known, so a control
// of their own bounds them, not the one that probes for the peer's. A long READ begins
// when half of the window is free; if it waited longer, nothing would be in flight. In
// memory, where whole is set, no buffer holds what READs bring. What was lost of other READs
// does not keep this one waiting, unless together they bring more than is counted.
func (r *sender) fitsDue(n uint32, whole bool) bool {
	d := &r.reads
	if d.ctl == nil {
		l := r.limits()
		if d.first = l.Long > 0 && congestion.Models(r.q.kind); d.first {
			l.Window = min(l.Window, firstReads)
		}
		d.ctl = congestion.NewFetch(r.q.kind, l)
	}
	window := int64(d.ctl.Window())
	if whole {
		window = wholeReads
	}
	return r.inbound()+min(int64(n), window/2) <= window && n <= math.MaxUint32-d.due
}

// inbound is how many bytes READs in flight will bring, without those that were given up as lost.
func (r *sender) inbound() int64 {
	n, b := int64(r.reads.due), r.recovery.loss.board
	if b == nil || b.Lost == 0 {
		return n
	}
	all := int64(b.Missing + r.nxt - b.High)
	return n * (all - int64(b.Lost)) / all
}

// answered notes that the path is known. Where no model of it is needed, the whole window may be
// used.
func (r *sender) answered() {
	if d := &r.reads; d.first {
		if d.first = false; !d.ctl.Paces() {
			d.ctl = congestion.NewFetch(r.q.kind, r.limits())
		}
	}
}

// fetchPaced reports whether the next READ has to wait so that what READs bring does not come as a
// burst. The peer sends all of one at once.
func (r *sender) fetchPaced(now time.Duration) bool {
	if !r.reads.ctl.Paces() {
		return false
	}
	at := r.reads.ctl.Ready(now)
	if at > now {
		r.q.paceAt = min(r.q.paceAt, at)
	}
	return at > now
}

// responseMarked notes that a router marked a READ response: less is asked for at a time.
// The peer is notified as well, and may pace its responses, but need not.
func (r *sender) responseMarked(now time.Duration) {
	if r.reads.ctl != nil {
		r.reads.ctl.Notified(now, &r.recovery.trips.answers)
	}
}

// ask produces the packet of the READ or atomic at sq.Cur. A READ that was partly
// answered asks for the rest, which the responder takes for a duplicate of a part
// (IBTA 9.7.5.1).
func (r *sender) ask(now time.Duration, w *request, out *machine.Out) bool {
	n := w.last + 1 - r.nxt
	brings := n * overhead
	if w.read() {
		brings += w.length - r.off
	}
	if !r.fits(now, n, overhead) || !r.fitsDue(brings, out.Whole) || !r.admits(overhead+brings) || !out.Whole && r.fetchPaced(now) {
		return false
	}
	fresh := w.state&started == 0
	if fresh {
		r.reads.outstanding++
	}
	r.question(w, r.sq.Cur, r.off, w.length-r.off, out)
	if fresh {
		r.recovery.copyLater(w, out)
		out.Wide = r.wantsKept(now)
	}
	out.PSN, out.Disown = psn.New(r.nxt), r.disowns()
	r.recovery.time(now, r.nxt, true, r.nxt != r.max)
	r.account(now, w, n, overhead)
	r.asked(now, brings)
	r.window.sinceAckReq = 0
	r.forward()
	return true
}

// asked counts n bytes that a READ will bring. The control is told in parts, and so measures when parts of a long READ
// arrive. Otherwise a lost packet would hide when all others came.
func (r *sender) asked(now time.Duration, n uint32) {
	d := &r.reads
	if !d.ctl.Paces() {
		d.due += n
		return
	}
	for n > 0 {
		part := min(n, askedPart)
		n -= part
		d.due += part
		d.ctl.Sent(now, int(part), r.inbound())
	}
}

// askedAgain counts n bytes that a READ asks for once more.
func (r *sender) askedAgain(now time.Duration, n uint32) {
	if r.reads.ctl.Paces() {
		r.reads.ctl.Sent(now, int(n), r.inbound())
	}
}

// askedPart is the length of those parts.
const askedPart = 128 << 10

// question builds the packet of the READ or atomic at ring index at, without its PSN. A
// READ asks for length bytes at offset off.
func (r *sender) question(w *request, at, off, length uint32, out *machine.Out) {
	s := r.p.SQ.At(at)
	out.Pieces, out.Len = out.Pieces[:0], 0
	out.Path = &r.p.Attr.Path
	out.BTH = ib.BTH{Opcode: ib.RCReadRequest, DestQPN: r.p.Attr.DestQPN, AckReq: true}
	r.address(at, out)
	out.Keep = r.reads.outstanding > uint16(r.p.Attr.MaxRdAtomic) && r.q.c.Selective()
	switch queue.Op(w.op) {
	case queue.Read:
		t := s.RDMA()
		out.RETH = ib.RETH{Addr: t.Addr + uint64(off), RKey: t.RKey, Length: length}
	case queue.Flush:
		t := s.Flush()
		out.Opcode = ib.RCFlush
		out.FETH = feth(t)
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: s.Length}
	case queue.AtomicWrite:
		t := s.RDMA()
		out.Opcode = ib.RCAtomicWrite
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: conn.AtomicLen}
		out.Pieces, out.Len = append(out.Pieces, r.p.SQ.Word(at)[:]), conn.AtomicLen
	case queue.CompareSwap:
		a := s.Atomic()
		out.Opcode = ib.RCCompareSwap
		out.AtomicETH = ib.AtomicETH{Addr: a.Addr, RKey: a.RKey, SwapAdd: a.Swap, Compare: a.CompareAdd}
	default:
		a := s.Atomic()
		out.Opcode = ib.RCFetchAdd
		out.AtomicETH = ib.AtomicETH{Addr: a.Addr, RKey: a.RKey, SwapAdd: a.CompareAdd}
	}
}

// feth is the header of a FLUSH.
func feth(f *queue.FlushTarget) ib.FETH {
	return ib.FETH{Selectivity: ib.Selectivity(f.Selectivity), Placement: ib.Placement(f.Placement)}
}
