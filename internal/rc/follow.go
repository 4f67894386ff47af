package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Follow implements machine.Follower: a faster path for SENDs and WRITEs of one packet that are posted
// one after the other. Each check is one of those that Next makes. If one fails, Next does the rest.
func (q *QP) Follow(now time.Duration, out *machine.Out) bool {
	if out.Opcode != ib.RCWriteOnly && (out.Opcode != ib.RCSendOnly || out.Solicited) || q.c.Port.Attr.State != qp.RTS || q.paces ||
		q.notifier.Owes() || q.alive.wanted || q.resp.OwesReport() || q.resp.Owes() {
		return false
	}
	return q.req.follow(now, out)
}

// follow produces the SEND or WRITE of one packet that was posted last but not fetched, unless
// anything else is to be sent, or it may not be sent now.
func (r *sender) follow(now time.Duration, out *machine.Out) bool {
	if r.sq.Cur != r.sq.End || r.recovery.loss.board != nil || r.recovery.tail.wanted || r.recovery.copies.due > 0 || r.disown.active ||
		r.recovery.rnr.until != machine.Never || r.nxt != r.max || r.nxt-r.una >= r.span || r.window.leftover.bytes > 0 {
		return false
	}
	i, ok := r.sq.Peek()
	if !ok {
		return false
	}
	s := r.p.SQ.At(i)
	op, flags := s.Op, s.Flags // another process may share the ring: what is checked is read once
	if op != queue.Write || out.Opcode != ib.RCWriteOnly || flags&^queue.Signaled != 0 {
		return r.followOther(now, out, i)
	}
	list := r.p.SQ.SGEsOf(s)
	if len(list) != 1 {
		return false
	}
	// What follows is mayFollow and followed. Calls would cost a row of short WRITEs 4 % of its rate.
	n := list[0].Length
	cost := n + overhead
	if flight := r.flight(); n-1 >= r.mtu || flight > 0 && flight+int64(cost) > r.limit() || !r.admits(cost) {
		return false
	}
	if b := r.gather.Whole(&list[0], int(n)); b != nil {
		out.Pieces = append(out.Pieces[:0], b)
	} else if !r.gatherOne(list, int(n), out) {
		return false
	}
	r.sq.Take()
	w := &r.requests[i]
	*w = request{first: r.nxt, last: r.nxt, length: n, op: uint8(queue.Write), flags: uint8(flags)}
	out.PSN, out.Len = psn.New(r.nxt), int(n)
	to := s.RDMA()
	out.RETH = ib.RETH{Addr: to.Addr, RKey: to.RKey, Length: n}
	r.account(now, w, 1, cost)
	r.window.sinceAckReq += cost
	if out.AckReq = !r.quiet(now, w, segOnly); out.AckReq {
		r.window.sinceAckReq = 0
		r.recovery.time(now, r.nxt-1, false, false)
	}
	r.forward()
	return true
}

// followOther is the rest of follow: a SEND, or inline data.
func (r *sender) followOther(now time.Duration, out *machine.Out, i uint32) bool {
	s := r.p.SQ.At(i)
	op, flags := s.Op, s.Flags
	write := op == queue.Write && out.Opcode == ib.RCWriteOnly
	if !write && (op != queue.Send || out.Opcode != ib.RCSendOnly || !r.hasCredit()) || flags&^(queue.Signaled|queue.Inline) != 0 {
		return false
	}
	n, inline, list := s.Length, flags&queue.Inline != 0, r.p.SQ.SGEsOf(s)
	switch {
	case !inline && len(list) == 1:
		n = list[0].Length
	case !inline || int(n) > r.p.SQ.MaxInline():
		return false
	}
	switch {
	case !r.mayFollow(n):
		return false
	case inline:
		out.Pieces = append(out.Pieces[:0], r.p.SQ.InlineRoom(i)[:n])
	case !r.gatherOne(list, int(n), out):
		return false
	}
	if write {
		to := s.RDMA()
		out.RETH = ib.RETH{Addr: to.Addr, RKey: to.RKey, Length: n}
	}
	r.followed(now, out, i, request{first: r.nxt, last: r.nxt, length: n, op: uint8(op), flags: uint8(flags)})
	return true
}

// mayFollow reports whether a message of n bytes is one packet, and may be sent now.
func (r *sender) mayFollow(n uint32) bool {
	flight := r.flight()
	return n-1 < r.mtu && (flight <= 0 || flight+int64(n+overhead) <= r.limit()) && r.admits(n+overhead)
}

// followed notes that the request that was posted last is sent, in one packet.
func (r *sender) followed(now time.Duration, out *machine.Out, i uint32, q request) {
	cost := q.length + overhead
	r.sq.Take()
	w := &r.requests[i]
	*w = q
	out.PSN, out.Len = psn.New(r.nxt), int(q.length)
	r.account(now, w, 1, cost)
	r.window.sinceAckReq += cost
	if out.AckReq = !r.quiet(now, w, segOnly); out.AckReq {
		r.window.sinceAckReq = 0
		r.recovery.time(now, r.nxt-1, false, false)
	}
	r.forward()
}

// gatherOne sets the n bytes of a list, and reports whether they are one piece.
func (r *sender) gatherOne(list []memory.SGE, n int, out *machine.Out) bool {
	pieces, d := r.gather.Gather(r.p.Memory, r.p.PD, list, 0, n, out.Pieces[:0])
	if d.Reason != reason.None || len(pieces) != 1 {
		return false
	}
	out.Pieces = pieces
	return true
}
