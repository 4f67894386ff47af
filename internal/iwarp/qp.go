package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A QP is the transport half of a queue pair over iWARP. A Stream feeds and drains it. Without
// one it only flushes in the error state.
type QP struct {
	p *machine.Port
	s *Stream   // the connection; nil before and after it
	a Agreement // of the connection

	req requester
	rd  reader
	rx  receiver
	tx  transmitter

	alive keepalive

	held   bool // nothing is sent before the first FPDU arrives
	silent bool // the first FPDU has not arrived
	untold bool // Established is sent when it arrives

	term iwarp.Term // of the peer's Terminate

	done machine.Completions
}

// New makes the machine of a queue pair. Port.Window and Port.AHs are not used.
func New(p *machine.Port) *QP {
	q := &QP{p: p, done: machine.NewCompletions(p)}
	q.init()
	return q
}

func (q *QP) init() {
	q.req.q, q.req.p, q.req.sq = q, q.p, machine.NewSendQueue(q.p)
	q.rd.q, q.rd.p = q, q.p
	q.rx.q, q.rx.p = q, q.p
	q.tx.q = q
	q.alive.at = machine.Never
}

// Stream returns the queue pair's connection, or nil.
func (q *QP) Stream() *Stream { return q.s }

// Agreement returns what the ends of the connection agreed on; IRD and ORD are the queue
// pair's max_dest_rd_atomic and max_rd_atomic.
func (q *QP) Agreement() Agreement { return q.a }

// operate begins full operation on a stream.
func (q *QP) operate(now time.Duration, s *Stream, a Agreement) {
	from := q.p.Attr.State
	q.s, s.q, q.a = s, q, a
	q.req.start()
	q.rd.start()
	q.rx.start()
	q.tx.start(s.setup.Params().LongestFPDU(&a, s.segment))
	q.startKeepalive(now)
	q.held, q.silent, q.untold = false, false, false
	q.p.Attr.State = qp.RTS
	q.p.Host.StateChanged(q.p, from, reason.Detail{})
}

// Settle flushes requests posted in the error state, and finishes draining the send queue. The
// methods of the stream call it; the owner of a queue pair without a stream must.
func (q *QP) Settle(now time.Duration) { q.settle(now) }

func (q *QP) settle(time.Duration) {
	switch q.p.Attr.State {
	case qp.Err:
		q.flush()
	case qp.SQD:
		q.req.drain()
	}
}

// Transition follows a change of Port.Attr.State that the user made and that was checked; from
// is the previous state. The set-up itself moves the queue pair to RTS. Entering Reset forgets
// everything, entering Err flushes both queues. Both end the connection, and the peer is not
// told why.
func (q *QP) Transition(now time.Duration, from qp.State) {
	a := &q.p.Attr
	switch a.State {
	case qp.Reset:
		q.tx.drop()
		q.part(reason.Detail{Reason: reason.StreamClosed})
		q.reset()
	case qp.RTS:
		a.SQDraining = false
	case qp.SQD:
		a.SQDraining = true
		q.req.drain()
	case qp.Err:
		if from != qp.Err {
			q.stop()
			q.part(q.cut(reason.StreamClosed))
		}
		q.flush()
	}
}

// part leaves the connection. An orderly disconnect continues, because everything left to send
// belongs to completed requests. Any other connection is aborted.
func (q *QP) part(d reason.Detail) {
	s := q.s
	if s == nil {
		return
	}
	q.s = nil
	if s.state == ending {
		s.q = nil
		return
	}
	s.abort(d)
}

func (q *QP) reset() {
	q.req.reset()
	q.rd.reset()
	q.rx.reset()
	q.tx.reset()
	q.a, q.term = Agreement{}, 0
	q.alive = keepalive{at: machine.Never}
	q.done.Reset()
	q.held, q.silent, q.untold = false, false, false
}

// stop drops all data to send and receive. The rest of a partially sent FPDU is the end of the
// stream.
func (q *QP) stop() {
	rest := q.tx.salvage()
	if s := q.s; s != nil {
		s.out, s.taken = append(s.out[s.taken:], rest...), 0
	}
	q.rx.dead, q.rx.stall = true, stall{}
	q.alive = keepalive{at: machine.Never}
	q.rd.stop()
}

// enterErr moves the queue pair itself to the error state. settle flushes the queues before
// control returns to the caller of the machine.
func (q *QP) enterErr(d reason.Detail, s queue.Status) {
	from := q.p.Attr.State
	if from == qp.Err {
		return
	}
	q.done.Failed(d, s)
	q.p.Attr.State = qp.Err
	q.p.Attr.SQDraining = false
	q.stop()
	q.p.Host.StateChanged(q.p, from, d)
}

// disconnect ends the connection in order.
func (q *QP) disconnect(now time.Duration, d reason.Detail) {
	q.enterErr(d, queue.WRFlushErr)
	q.s.shutDown(now, d)
}

// unfinished reports whether the end of the stream would cut something off: an incomplete
// FPDU, or unanswered READs and atomics of the program.
func (q *QP) unfinished() bool { return q.rx.begun() > 0 || q.req.awaits() }

// cut returns the detail of an end of the stream: the requests that are outstanding, and the bytes of
// an incomplete FPDU.
func (q *QP) cut(why reason.Reason) reason.Detail {
	return reason.Detail{Reason: why, Expected: uint64(q.req.outstanding()), Found: uint64(q.rx.begun())}
}

// lose handles the end of the stream. If that cut something off, the oldest request completes
// as on InfiniBand when the peer no longer answers.
func (q *QP) lose(now time.Duration, d reason.Detail, cut bool) {
	if q.p.Attr.State == qp.Err {
		return
	}
	q.refuse(d)
	if cut && !q.req.sq.Idle() {
		q.req.fail(now, queue.RetryExcErr, d)
		return
	}
	q.enterErr(d, queue.WRFlushErr)
}

func (q *QP) refuse(d reason.Detail) { q.p.Host.Refuse(q.p, d) }

// flush completes all posted work requests with WR_FLUSH_ERR, as on InfiniBand (IBTA
// 10.3.1.7, 10.8.3), except those of a shared receive queue.
func (q *QP) flush() {
	q.req.flush()
	q.rx.flush()
	q.done.LastWQE()
}
