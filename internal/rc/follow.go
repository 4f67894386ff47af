package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Follow implements machine.Follower: a faster path for short WRITEs that are posted one after
// the other. Each check is one of those that Next makes. If one fails, Next does the rest.
func (q *QP) Follow(now time.Duration, out *machine.Out) bool {
	if out.Opcode != ib.RCWriteOnly || q.c.Port.Attr.State != qp.RTS || q.paces ||
		q.notifier.Owes() || q.alive.wanted || q.resp.OwesReport() || q.resp.Owes() {
		return false
	}
	return q.req.follow(now, out)
}

// follow produces the WRITE of one short packet that was posted last but not fetched, unless
// anything else is to be sent, or the WRITE may not be sent now.
func (r *sender) follow(now time.Duration, out *machine.Out) bool {
	if r.sq.Cur != r.sq.End || r.recovery.loss.board != nil || r.recovery.tail.wanted || r.recovery.copies.due || r.disown.active ||
		r.recovery.rnr.until != machine.Never || r.nxt != r.max || r.nxt-r.una >= r.span || r.window.leftover.bytes > 0 {
		return false
	}
	i, ok := r.sq.Peek()
	if !ok {
		return false
	}
	s := r.p.SQ.At(i)
	flags := s.Flags
	if s.Op != queue.Write || flags&^queue.Signaled != 0 {
		return false
	}
	list := r.p.SQ.SGEsOf(s)
	if len(list) != 1 {
		return false
	}
	n := list[0].Length // read once: another process may share the ring
	cost := n + overhead
	if flight := r.flight(); n-1 >= quietLength || flight > 0 && flight+int64(cost) > r.limit() || !r.admits(cost) {
		return false
	}
	if b := r.gather.Whole(&list[0], int(n)); b != nil {
		out.Pieces = append(out.Pieces[:0], b)
	} else {
		pieces, d := r.gather.Gather(r.p.Memory, r.p.PD, list, 0, int(n), out.Pieces[:0])
		if d.Reason != reason.None || len(pieces) != 1 {
			return false
		}
		out.Pieces = pieces
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
