package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// The segments of a message, as bits.
const (
	segFirst = 1
	segLast  = 2
	segOnly  = segFirst | segLast
)

// opcodes is the opcode of each segment of each operation (IBTA table 38).
var opcodes = [queue.SendInv + 1][4]ib.Opcode{
	queue.Write:    {ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLast, ib.RCWriteOnly},
	queue.WriteImm: {ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLastImm, ib.RCWriteOnlyImm},
	queue.Send:     {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLast, ib.RCSendOnly},
	queue.SendImm:  {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastImm, ib.RCSendOnlyImm},
	queue.SendInv:  {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastInvalidate, ib.RCSendOnlyInvalidate},
}

// shape is what segment of its message the packet at offset off is.
func (r *requester) shape(w *request, off uint32) int {
	seg := 0
	if off == 0 {
		seg = segFirst
	}
	if w.length-off <= r.mtu {
		seg |= segLast
	}
	return seg
}

// segment produces the next packet of the SEND or WRITE at cur.
func (r *requester) segment(now time.Duration, w *request, out *machine.Out) bool {
	seg := r.shape(w, r.off)
	n := min(w.length-r.off, r.mtu)
	cost := n + overhead
	if !r.fits(1, cost) || !r.fill(w, r.cur, r.off, seg, out) {
		return false
	}
	out.PSN = psn.New(r.nxt)
	r.account(now, w, 1, cost)
	r.off += n
	r.sinceRequest += n
	switch {
	case seg&segLast != 0:
		out.AckReq = true
		r.endMessage(w, r.cur, out)
		r.forward()
	// IBTA 9.7.5.1: an acknowledge may be asked for with any packet.
	case int64(r.sinceRequest) >= int64(r.q.ctl.Window()/ackShare):
		out.AckReq = true
	}
	if out.AckReq {
		r.sinceRequest = 0
		r.time(now, r.nxt-1, false)
	}
	return true
}

// fill makes the packet at offset off of the SEND or WRITE at ring index at,
// but for its PSN.
func (r *requester) fill(w *request, at, off uint32, seg int, out *machine.Out) bool {
	n := min(w.length-off, r.mtu)
	out.Pieces = out.Pieces[:0]
	if n > 0 && !r.payload(w, at, off, n, out) {
		return false
	}
	out.Len = int(n)
	out.Path = &r.p.Attr.Path
	op := queue.Op(w.op)
	out.BTH = ib.BTH{Opcode: opcodes[op][seg], DestQPN: r.p.Attr.DestQPN}
	if seg&segFirst != 0 && (op == queue.Write || op == queue.WriteImm) {
		t := r.p.SQ.At(at).RDMA()
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: w.length}
	}
	return true
}

// endMessage adds what only the last packet of a message has.
func (r *requester) endMessage(w *request, at uint32, out *machine.Out) {
	op, s := queue.Op(w.op), r.p.SQ.At(at)
	switch op {
	case queue.SendImm, queue.WriteImm:
		out.Imm = queue.NetworkOrder(s.ImmInv)
	case queue.SendInv:
		out.IETH = s.ImmInv
	}
	// IBTA 9.2: solicited events belong to what completes a receive.
	out.Solicited = op != queue.Write && queue.Flags(w.flags)&queue.Solicited != 0
}

// payload appends the n bytes at offset off of the message at ring index at to
// out.
func (r *requester) payload(w *request, at, off, n uint32, out *machine.Out) bool {
	if queue.Flags(w.flags)&queue.Inline != 0 {
		out.Pieces = append(out.Pieces, r.p.SQ.InlineRoom(at)[off:off+n])
		return true
	}
	var d reason.Detail
	out.Pieces, d = r.gather.Gather(r.p.Memory, r.p.PD, r.p.SQ.SGEs(at), uint64(off), int(n), out.Pieces)
	if d.Reason != reason.None {
		r.failLater(w, localStatus(d), d)
		return false
	}
	return true
}

// ask produces the packet of the READ or atomic at cur. A READ that was partly
// answered asks for the rest, which the responder takes for a duplicate of a
// part (IBTA 9.7.5.1).
func (r *requester) ask(now time.Duration, w *request, out *machine.Out) bool {
	n := w.last + 1 - r.nxt
	brings := n * overhead
	if w.read() {
		brings += w.length - r.off
	}
	if !r.fits(n, overhead) || !r.fitsDue(brings) {
		return false
	}
	if w.state&started == 0 {
		r.reads++
	}
	r.question(w, r.cur, r.off, w.length-r.off, out)
	out.PSN = psn.New(r.nxt)
	r.time(now, r.nxt, true)
	r.account(now, w, n, overhead)
	r.due += brings
	r.sinceRequest = 0
	r.copyLater(w)
	r.forward()
	return true
}

// question makes the packet of the READ or atomic at ring index at, but for its
// PSN; a READ asks for length bytes at offset off.
func (r *requester) question(w *request, at, off, length uint32, out *machine.Out) {
	s := r.p.SQ.At(at)
	out.Pieces, out.Len = out.Pieces[:0], 0
	out.Path = &r.p.Attr.Path
	out.BTH = ib.BTH{Opcode: ib.RCReadRequest, DestQPN: r.p.Attr.DestQPN, AckReq: true}
	out.Keep = r.reads > uint16(r.p.Attr.MaxRdAtomic) && r.q.selective()
	switch queue.Op(w.op) {
	case queue.Read:
		t := s.RDMA()
		out.RETH = ib.RETH{Addr: t.Addr + uint64(off), RKey: t.RKey, Length: length}
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
