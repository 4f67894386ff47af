package iwarp

import (
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// turn is how many messages READ responses and requests send alternately while both have
// something to send.
const turn = 4

// next fills out with the next batch of FPDUs, or with the rest of the last one.
func (q *QP) next(now time.Duration, out *Out) bool {
	if st := q.p.Attr.State; st != qp.RTS && st != qp.SQD {
		return false
	}
	t := &q.tx
	if t.pending() {
		d := t.again(out)
		if d.Reason == reason.None {
			return true
		}
		// The FPDU cannot be completed. The stream must end, and the peer cannot be told.
		out.reset()
		q.refuse(d)
		q.enterErr(d, queue.LocProtErr)
		if s := q.s; s != nil {
			s.abort(d)
		}
		q.settle(now)
		return false
	}
	if q.held {
		return false
	}
	t.begin()
	for q.produce(now, out) {
	}
	if q.p.Attr.State == qp.Err {
		out.reset() // nothing of the batch was sent
		q.settle(now)
		return false
	}
	if len(t.list) == 0 {
		t.drop()
		q.settle(now)
		return false
	}
	return true
}

// produce adds one FPDU to the batch. No FPDU of another message comes between those of
// one (RFC 5041 5.3).
func (q *QP) produce(now time.Duration, out *Out) bool {
	switch {
	case q.rd.sending():
		return q.rd.next(now, out)
	case q.req.sending():
		return q.req.next(now, out)
	case q.req.ready != 0:
		return q.req.sendReady(out)
	case q.alive.wanted && q.req.reads == 0: // a READ may have been sent since the probe was wanted
		return q.sendProbe(out)
	case q.rd.count > 0 && (q.rd.turns < turn || !q.req.waiting()):
		if q.rd.turns < turn {
			q.rd.turns++
		}
		return q.rd.next(now, out)
	}
	if q.rd.turns++; q.rd.turns >= 2*turn {
		q.rd.turns = 0
	}
	if q.req.next(now, out) {
		return true
	}
	q.rd.turns = 0
	return q.p.Attr.State != qp.Err && q.rd.count > 0 && q.rd.next(now, out)
}

// sent counts n bytes accepted by the link, which still holds the last held bytes of the
// stream.
func (q *QP) sent(now time.Duration, n, held int) {
	t := &q.tx
	end, left := q.s.written-uint64(n), q.s.written-uint64(held)
	if q.alive.full && n > 0 {
		q.alive.heard = now // the socket has room again, so the peer's host has accepted bytes
	}
	for n > 0 && t.pending() {
		f := &t.list[t.first]
		rest := f.length - t.taken
		if n < rest {
			t.taken += n
			break
		}
		n -= rest
		end += uint64(rest)
		t.first++
		t.taken = 0
		if f.armed {
			q.req.arm(end)
		}
		if f.done != noRequest {
			t.hold(f.done, end, left)
		}
	}
	t.release(left)
	if q.alive.full = t.pending(); !q.alive.full {
		t.drop()
	}
	// A SEND or WRITE completes when the system has accepted it: it is sent even if the
	// program ends. RDMAP has no acknowledges.
	q.req.advance(now)
}

// fatal ends the connection because of an error of the peer. A Terminate tells the peer; the
// program gets the error as the completion of the receive in use, or else as an event.
func (q *QP) fatal(now time.Duration, t iwarp.Term, header []byte, f fault) {
	q.refuse(f.d)
	if q.p.Attr.State == qp.Err {
		return
	}
	q.terminate(now, t, header, f.d, f.status)
	if q.rx.taken {
		q.rx.finishReceive(f.status, f.d)
		return
	}
	q.p.Host.Event(q.p, f.event, f.d)
}

// terminate takes the queue pair to the error state and sends a Terminate (RFC 5040
// 6.2.1, 7).
func (q *QP) terminate(now time.Duration, t iwarp.Term, header []byte, d reason.Detail, status queue.Status) {
	q.enterErr(d, status)
	s := q.s
	if s == nil {
		return
	}
	if s.shut == ShutAbort { // an FPDU was cut off
		s.abort(d)
		return
	}
	if !q.a.SendMarkers {
		s.terminate(t, header, q.a.CRC)
	} else {
		q.terminateMarked(t, header)
	}
	s.shutDown(now, d)
}

// terminateMarked queues a Terminate with its markers.
func (q *QP) terminateMarked(t iwarp.Term, header []byte) {
	s := q.s
	before := s.out
	s.out = nil
	s.terminate(t, header, false)
	x := transmitter{q: q, arena: make([]byte, marked(len(s.out))), pos: q.tx.pos}
	copy(x.arena, s.out)
	n := x.mark(len(s.out))
	b := x.arena[:n]
	if q.a.CRC {
		iwarp.PutCRC(b[n-iwarp.CRCLen:], iwarp.UpdateCRC(0, b[:n-iwarp.CRCLen]))
	}
	s.out = append(before, b...)
}
