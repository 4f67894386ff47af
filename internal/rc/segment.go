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

// shape is what segment of its message the n bytes at offset off are.
func (r *requester) shape(w *request, off, n uint32) int {
	seg := 0
	if off == 0 {
		seg = segFirst
	}
	if w.length-off == n {
		seg |= segLast
	}
	return seg
}

// train is how many packets of the message at cur may leave as one. With nothing
// in flight it is any number, as it is of the packets of a READ.
func (r *requester) train(w *request, out *machine.Out) uint32 {
	left := w.length - r.off
	if out.Longest <= 1 || left <= r.mtu || r.board != nil {
		return 1
	}
	n := min(uint32(out.Longest), (left-1)>>r.mtuShift+1)
	if flight := r.flight(); flight > 0 {
		room := max(int64(r.q.ctl.Window())-flight, 0)
		n = min(n, uint32(room/int64(r.mtu+overhead)))
	}
	if !out.Whole { // ends where an acknowledge is due: it can be asked for with the last packet alone
		due := max(r.ackEvery()-int64(r.sinceRequest), 0)
		n = min(n, uint32(due/int64(r.mtu+overhead)))
	}
	return max(n, 1)
}

// segment produces the next packet of the SEND or WRITE at cur, or a train of
// them.
func (r *requester) segment(now time.Duration, w *request, out *machine.Out) bool {
	train := r.train(w, out)
	n := min(w.length-r.off, train*r.mtu)
	cost := n + train*overhead
	if train > 1 && (!r.fits(now, train, cost) || !r.admits(cost)) {
		train, n = 1, r.mtu
		cost = n + overhead
	}
	seg := r.shape(w, r.off, n)
	if !r.fits(now, train, cost) || !r.admits(cost) || !r.fill(w, r.cur, r.off, n, seg, out) {
		return false
	}
	out.PSN, out.Train, out.Disown = psn.New(r.nxt), int(train), r.disowns()
	r.account(now, w, train, cost)
	r.off += n
	r.sinceRequest += cost
	switch {
	case seg&segLast != 0:
		out.AckReq = !r.quiet(now, w, seg)
		r.endMessage(w, r.cur, out)
		r.forward()
	// IBTA 9.7.5.1: an acknowledge may be asked for with any packet. What asks for as
	// many as there may be fits into the window, or it would stand still for the last.
	case int64(r.sinceRequest+r.mtu+overhead) > r.ackEvery():
		out.AckReq = true
	}
	if out.AckReq {
		r.sinceRequest = 0
		r.time(now, r.nxt-1, false)
	}
	return true
}

// ackEvery is after how many bytes an acknowledge is asked for.
func (r *requester) ackEvery() int64 {
	if r.rtt.Least() > longTrip {
		return int64(r.q.ctl.Window() / longAckShare)
	}
	return int64(r.q.ctl.Window() / ackShare)
}

// quietLength is the longest message that may leave without asking for an
// acknowledge: where none follows that asks, it is sent again as a probe.
const quietLength = 256

// quiet tells whether the message at cur, whose only packet was just accounted
// for, need not be acknowledged for its own sake: nobody waits for its
// completion, and a later message will ask, or the probe. It asks itself where
// the send queue, the window or the peer's receive queue would otherwise fill up with
// such messages.
func (r *requester) quiet(now time.Duration, w *request, seg int) bool {
	if seg != segOnly || w.length > quietLength || r.p.SQSigAll || queue.Flags(w.flags)&queue.Signaled != 0 || r.board != nil || w.takesReceive() && r.taking >= r.room/ackShare ||
		r.p.SQ.Distance(r.head, r.cur) >= r.p.SQ.Depth()/ackShare || int64(r.sent-r.acked) >= int64(r.q.ctl.Window()/ackShare) {
		return false
	}
	// Without an acknowledge only the probe, from now on, shows a loss; the
	// timeout, which is not for a packet that asked for nothing (IBTA 9.7.6.1.3),
	// must be far behind it.
	r.armProbe(now)
	return r.probeAt != machine.Never && r.probeAt-now < (r.ackAt-now)/4
}

// fill makes the packet of the n bytes at offset off of the SEND or WRITE at ring
// index at, but for its PSN.
func (r *requester) fill(w *request, at, off, n uint32, seg int, out *machine.Out) bool {
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
		r.failLater(w, machine.LocalStatus(d), d)
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
	if !r.fits(now, n, overhead) || !r.fitsDue(brings) || !r.admits(overhead+brings) {
		return false
	}
	fresh := w.state&started == 0
	if fresh {
		r.reads++
	}
	r.question(w, r.cur, r.off, w.length-r.off, out)
	if fresh {
		r.copyLater(w, out)
	}
	out.PSN, out.Disown = psn.New(r.nxt), r.disowns()
	r.time(now, r.nxt, true)
	r.account(now, w, n, overhead)
	r.due += brings
	r.sinceRequest = 0
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
	case queue.AtomicWrite:
		t := s.RDMA()
		out.Opcode = ib.RCAtomicWrite
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: atomicLen}
		out.Pieces, out.Len = append(out.Pieces, r.p.SQ.InlineRoom(at)[:atomicLen]), atomicLen
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
