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

// segment produces the next packet of the SEND or WRITE at cur.
func (r *requester) segment(now time.Duration, w *request, out *machine.Out) bool {
	n := w.length - r.off
	seg := segLast
	if n > r.mtu {
		n, seg = r.mtu, 0
	}
	if r.off == 0 {
		seg |= segFirst
	}
	cost := n + overhead
	if !r.fits(1, cost) {
		return false
	}
	s := r.p.SQ.At(r.cur)
	out.Pieces = out.Pieces[:0]
	if n > 0 && !r.payload(w, n, out) {
		return false
	}
	out.Len = int(n)
	out.Path = &r.p.Attr.Path
	op := queue.Op(w.op)
	out.BTH = ib.BTH{Opcode: opcodes[op][seg], DestQPN: r.p.Attr.DestQPN, PSN: psn.New(r.nxt)}
	if seg&segFirst != 0 && (op == queue.Write || op == queue.WriteImm) {
		t := s.RDMA()
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: w.length}
	}
	r.account(now, w, 1, cost)
	r.off += n
	r.sinceRequest += n
	if seg&segLast != 0 {
		r.endMessage(op, w, s, out)
		return true
	}
	// IBTA 9.7.5.1: an acknowledge may be asked for with any packet.
	if int64(r.sinceRequest) >= int64(r.window.size/ackShare) {
		out.AckReq = true
		r.sinceRequest = 0
	}
	return true
}

// endMessage adds what only the last packet of a message has.
func (r *requester) endMessage(op queue.Op, w *request, s *queue.SendWQE, out *machine.Out) {
	out.AckReq = true
	r.sinceRequest = 0
	switch op {
	case queue.SendImm, queue.WriteImm:
		out.Imm = queue.NetworkOrder(s.ImmInv)
	case queue.SendInv:
		out.IETH = s.ImmInv
	}
	// IBTA 9.2: solicited events belong to what completes a receive.
	out.Solicited = op != queue.Write && queue.Flags(w.flags)&queue.Solicited != 0
	r.forward()
}

// payload appends the next n bytes of the message at cur to out.
func (r *requester) payload(w *request, n uint32, out *machine.Out) bool {
	if queue.Flags(w.flags)&queue.Inline != 0 {
		out.Pieces = append(out.Pieces, r.p.SQ.InlineRoom(r.cur)[r.off:r.off+n])
		return true
	}
	var d reason.Detail
	out.Pieces, d = r.gather.Gather(r.p.Memory, r.p.PD, r.p.SQ.SGEs(r.cur), uint64(r.off), int(n), out.Pieces)
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
	s := r.p.SQ.At(r.cur)
	out.Pieces, out.Len = out.Pieces[:0], 0
	out.Path = &r.p.Attr.Path
	out.BTH = ib.BTH{Opcode: ib.RCReadRequest, DestQPN: r.p.Attr.DestQPN, AckReq: true, PSN: psn.New(r.nxt)}
	switch queue.Op(w.op) {
	case queue.Read:
		t := s.RDMA()
		out.RETH = ib.RETH{Addr: t.Addr + uint64(r.off), RKey: t.RKey, Length: w.length - r.off}
	case queue.CompareSwap:
		a := s.Atomic()
		out.Opcode = ib.RCCompareSwap
		out.AtomicETH = ib.AtomicETH{Addr: a.Addr, RKey: a.RKey, SwapAdd: a.Swap, Compare: a.CompareAdd}
	default:
		a := s.Atomic()
		out.Opcode = ib.RCFetchAdd
		out.AtomicETH = ib.AtomicETH{Addr: a.Addr, RKey: a.RKey, SwapAdd: a.CompareAdd}
	}
	if w.state&started == 0 {
		r.reads++
	}
	r.account(now, w, n, overhead)
	r.due += brings
	r.sinceRequest = 0
	r.forward()
	return true
}
