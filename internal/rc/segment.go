package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// The segments of a message, as bits.
const (
	segFirst = 1
	segLast  = 2
	segOnly  = segFirst | segLast
)

// opcodes holds the opcode of each segment of each operation (IBTA table 38).
var opcodes = [queue.SendInv + 1][4]ib.Opcode{
	queue.Write:    {ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLast, ib.RCWriteOnly},
	queue.WriteImm: {ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLastImm, ib.RCWriteOnlyImm},
	queue.Send:     {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLast, ib.RCSendOnly},
	queue.SendImm:  {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastImm, ib.RCSendOnlyImm},
	queue.SendInv:  {ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastInvalidate, ib.RCSendOnlyInvalidate},
}

// shape is the segment of its message that the n bytes at offset off are.
func (r *sender) shape(w *request, off, n uint32) int {
	seg := 0
	if off == 0 {
		seg = segFirst
	}
	if w.length-off == n {
		seg |= segLast
	}
	return seg
}

// train is how many packets of the message at sq.Cur may leave as one. With nothing in
// flight it is any number.
func (r *sender) train(w *request, out *machine.Out) uint32 {
	left := w.length - r.off
	if out.Longest <= 1 || left <= r.mtu || r.recovery.loss.board != nil {
		return 1
	}
	n := min(uint32(out.Longest), (left-1)>>r.mtuShift+1)
	if flight := r.flight(); flight > 0 {
		room := max(r.limit()-flight, 0)
		n = min(n, uint32(room/int64(r.mtu+overhead)))
	}
	if !out.Whole { // it ends where an acknowledge is due, which only the last packet can request
		due := max(r.ackEvery()-int64(r.window.sinceAckReq), 0)
		n = min(n, uint32(due/int64(r.mtu+overhead)))
	}
	return max(n, 1)
}

// segment produces the next packet, or train of packets, of the SEND or WRITE at sq.Cur.
func (r *sender) segment(now time.Duration, w *request, out *machine.Out) bool {
	train := r.train(w, out)
	n := min(w.length-r.off, train*r.mtu)
	cost := n + train*overhead
	if train > 1 && (!r.fits(now, train, cost) || !r.admits(cost)) {
		train, n = 1, r.mtu
		cost = n + overhead
	}
	seg := r.shape(w, r.off, n)
	if !r.fits(now, train, cost) || !r.admits(cost) || !r.fill(w, r.sq.Cur, r.off, n, seg, out) {
		return false
	}
	out.PSN, out.Train, out.Disown = psn.New(r.nxt), int(train), r.disowns()
	again := seq.Before(r.nxt+train-1, r.max)
	r.account(now, w, train, cost)
	r.off += n
	r.window.sinceAckReq += cost
	switch {
	case seg&segLast != 0:
		out.AckReq = !r.quiet(now, w, seg)
		r.endMessage(w, r.sq.Cur, out)
		r.forward()
	// IBTA 9.7.5.1: an acknowledge may be requested with any packet. A packet that
	// requests one must fit into the window, or the window would stay full.
	case int64(r.window.sinceAckReq+r.mtu+overhead) > r.ackEvery():
		out.AckReq = true
	}
	if out.AckReq {
		r.window.sinceAckReq = 0
		r.recovery.time(now, r.nxt-1, false, again)
	}
	return true
}

// fill builds the packet of the n bytes at offset off of the SEND or WRITE at ring index
// at, without its PSN.
func (r *sender) fill(w *request, at, off, n uint32, seg int, out *machine.Out) bool {
	out.Pieces = out.Pieces[:0]
	if n > 0 && !r.payload(w, at, off, n, out) {
		return false
	}
	out.Len = int(n)
	out.Path = &r.p.Attr.Path
	op := queue.Op(w.op)
	out.BTH = ib.BTH{Opcode: opcodes[op][seg], DestQPN: r.p.Attr.DestQPN}
	r.address(at, out)
	if seg&segFirst != 0 && (op == queue.Write || op == queue.WriteImm) {
		t := r.p.SQ.At(at).RDMA()
		out.RETH = ib.RETH{Addr: t.Addr, RKey: t.RKey, Length: w.length}
	}
	return true
}

// endMessage adds what only the last packet of a message has.
func (r *sender) endMessage(w *request, at uint32, out *machine.Out) {
	op, s := queue.Op(w.op), r.p.SQ.At(at)
	switch op {
	case queue.SendImm, queue.WriteImm:
		out.Imm = queue.NetworkOrder(s.ImmInv)
	case queue.SendInv:
		out.IETH = s.ImmInv
	}
	// IBTA 9.2: solicited events belong to messages that complete a receive.
	out.Solicited = op != queue.Write && queue.Flags(w.flags)&queue.Solicited != 0
}

// payload appends the n bytes at offset off of the message at ring index at to out.
func (r *sender) payload(w *request, at, off, n uint32, out *machine.Out) bool {
	if queue.Flags(w.flags)&queue.Inline != 0 {
		out.Pieces = append(out.Pieces, r.p.SQ.InlineRoom(at)[off:off+n])
		return true
	}
	var d reason.Detail
	out.Pieces, d = r.gather.Gather(r.p.Memory, r.p.PD, r.p.SQ.SGEs(at), uint64(off), int(n), out.Pieces)
	if d.Reason != reason.None {
		r.completer.failLater(w, machine.LocalStatus(d), d)
		return false
	}
	return true
}
