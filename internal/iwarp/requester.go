package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A request holds the requester's own copy of a work request's fields, because another process
// that shares the ring may change it.
type request struct {
	length uint32 // of the message
	msn    uint32 // on its queue, of untagged messages
	op     uint8  // queue.Op
	flags  uint8  // queue.Flags
	state  uint8  // the constants below
}

// The states of a request, as bits.
const (
	started = 1 << iota // its first FPDU was built
	done                // sent, answered or executed
	failed              // completes in error when all earlier ones have completed
	written             // the WRITE of a WRITE with immediate data was built
)

func (w *request) is(op queue.Op) bool { return queue.Op(w.op) == op }
func (w *request) local() bool         { return queue.Op(w.op).Local() }
func (w *request) atomic() bool        { return queue.Op(w.op).Atomic() }
func (w *request) responds() bool      { return w.is(queue.Read) || w.atomic() }
func (w *request) send() bool          { return w.is(queue.Send) || w.is(queue.SendInv) }
func (w *request) write() bool         { return w.is(queue.Write) || w.is(queue.WriteImm) }

// An ask is an unanswered READ or atomic. Its scatter list is a copy: the peer's answer is
// placed by it without another check of the rights.
type ask struct {
	req    uint32 // noRequest for an empty READ without a work request
	stag   uint32 // the sink, as in the request
	to     uint64
	length uint32
	pos    uint32 // bytes answered
	msn    uint32
	atomic bool
	end    uint64 // end of the request in the stream, once it was sent
	sges   []memory.SGE
}

// A requester turns work requests into messages, and completes them.
type requester struct {
	q *QP
	p *machine.Port

	requests []request // by index of the ring; allocated with the first work request

	sq  machine.SendQueue
	off uint32 // bytes of the message at sq.Cur built so far

	msn [2]uint32 // of the next message, by queue

	asks          []ask // a ring with ORD entries
	oldest, reads int
	armed         int // sent ones; the others cannot be answered yet

	ready iwarp.RTR // the frame to send that begins a connection, or a wake-up; or 0

	failStatus queue.Status // status of the request marked failed
	failDetail reason.Detail

	gather memory.Cursor
	pieces [][]byte
}

func (r *requester) start() {
	r.sq.Start()
	r.off = 0
	r.msn = [2]uint32{1, 1} // RFC 5041 4.3: sequence numbers begin with 1
	r.oldest, r.reads, r.armed = 0, 0, 0
	switch {
	case !r.q.s.setup.Initiator():
		r.ready = 0
	case r.q.a.PeerToPeer:
		r.ready = r.q.a.RTR
	default:
		// RFC 5044 7.1.2: the initiator sends the first FPDU, and its program may send
		// nothing.
		r.ready = iwarp.RTRWrite
	}
	if n := int(r.q.a.ORD); len(r.asks) != n {
		r.asks = make([]ask, n)
	}
}

func (r *requester) reset() {
	*r = requester{requests: r.requests, q: r.q, p: r.p, sq: r.sq}
	r.sq.Drop()
}

// outstanding returns how many work requests have not completed.
func (r *requester) outstanding() int { return r.p.SQ.Len() }

// flush completes everything in the ring with WR_FLUSH_ERR.
func (r *requester) flush() {
	if r.sq.Flush(&r.q.done) {
		r.reads, r.armed = 0, 0
	}
}

// drain finishes draining the send queue when every started message has completed (IBTA
// 10.3.1.5).
func (r *requester) drain() {
	if r.p.Attr.SQDraining && (r.sq.Idle() || r.requests[r.sq.Head].state&(started|done|failed) == 0) {
		r.p.Drained()
	}
}

// sending reports whether the message at sq.Cur is partially built.
func (r *requester) sending() bool {
	if r.sq.Cur == r.sq.End {
		return false
	}
	s := r.requests[r.sq.Cur].state
	return s&started != 0 && s&(done|failed) == 0
}

// waiting reports whether there may be something to send.
func (r *requester) waiting() bool { return r.sq.Cur != r.p.SQ.Producer() }

// next builds the next FPDU of a request.
func (r *requester) next(now time.Duration, out *Out) bool {
	for {
		if r.sq.Cur == r.sq.End && !r.fetch(now) {
			return false
		}
		w := &r.requests[r.sq.Cur]
		if w.state&(started|done|failed) == 0 && !r.admit(w) || w.state&failed != 0 {
			return false
		}
		switch {
		case w.local():
			if w.state&done == 0 && !r.local(now, w) {
				return false
			}
			r.forward()
			r.advance(now)
			if r.p.Attr.State == qp.Err {
				return false
			}
			continue
		case w.responds():
			return r.ask(now, w, out)
		case w.state&written != 0:
			return r.immediate(w, out)
		}
		return r.segment(now, w, out)
	}
}

// forward advances to the request after sq.Cur.
func (r *requester) forward() {
	r.sq.Forward()
	r.off = 0
	r.gather.Restart()
}

// admit reports whether a new message may start now.
func (r *requester) admit(w *request) bool {
	if r.p.Attr.State != qp.RTS {
		return false // SQD: only started messages continue
	}
	// IBTA 10.8.3.3: a fence waits for earlier READs and atomics.
	if queue.Flags(w.flags)&queue.Fence != 0 && r.reads > 0 {
		return false
	}
	return !w.responds() || r.reads < len(r.asks)
}

// sendReady builds the frame that begins a connection (RFC 6581 9.2), or a wake-up. It belongs
// to no work request.
func (r *requester) sendReady(out *Out) bool {
	t := &r.q.tx
	if !t.room(out, iwarp.FPDULen(iwarp.UntaggedLen+iwarp.ReadLen), 0) {
		return false
	}
	kind := r.ready
	r.ready = 0
	switch kind {
	case iwarp.RTRRead:
		r.putEmptyRead(out)
	case iwarp.RTRSend:
		s := iwarp.Segment{Length: iwarp.UntaggedLen - iwarp.LengthLen, Last: true, Opcode: iwarp.Send, Queue: iwarp.QueueSend, MSN: r.msn[iwarp.QueueSend]}
		r.msn[iwarp.QueueSend]++
		b := t.open(int(s.Length))
		s.Put(b)
		t.seal(out, b, 0, frame{done: noRequest})
	default:
		// The STag of an empty message is not checked, but 0 has a special use in some
		// hardware.
		s := iwarp.Segment{Length: iwarp.TaggedLen - iwarp.LengthLen, Tagged: true, Last: true, Opcode: iwarp.Write, STag: 1}
		b := t.open(int(s.Length))
		s.Put(b)
		t.seal(out, b, 0, frame{done: noRequest})
	}
	return true
}

// sendEmptyRead builds a READ of no bytes if the batch has room for it.
func (r *requester) sendEmptyRead(out *Out) bool {
	if !r.q.tx.room(out, iwarp.FPDULen(iwarp.UntaggedLen+iwarp.ReadLen), 0) {
		return false
	}
	r.putEmptyRead(out)
	return true
}

// putEmptyRead builds a READ of no bytes, which belongs to no work request.
func (r *requester) putEmptyRead(out *Out) {
	m := iwarp.Read{SinkSTag: 1, SourceSTag: 1}
	r.putRead(out, &m, ask{req: noRequest, stag: 1})
}

// putRead builds a READ request, and records it as a.
func (r *requester) putRead(out *Out, m *iwarp.Read, a ask) {
	t := &r.q.tx
	s := iwarp.Segment{
		Length: iwarp.UntaggedLen - iwarp.LengthLen + iwarp.ReadLen, Last: true, Opcode: iwarp.ReadRequest,
		Queue: iwarp.QueueRead, MSN: r.msn[iwarp.QueueRead],
	}
	b := t.open(int(s.Length))
	m.Put(b[s.Put(b):])
	a.msn = s.MSN
	r.remember(a)
	t.seal(out, b, 0, frame{done: noRequest, armed: true})
}

// remember appends an unanswered READ or atomic. The caller has set the scatter list of the
// entry before.
func (r *requester) remember(a ask) {
	at := &r.asks[(r.oldest+r.reads)%len(r.asks)]
	a.sges = at.sges
	if a.req == noRequest {
		a.sges = a.sges[:0]
	}
	*at = a
	r.reads++
	r.msn[iwarp.QueueRead]++
}

// awaits reports whether READs or atomics of the program are unanswered.
func (r *requester) awaits() bool {
	for i := range r.reads {
		if r.asks[(r.oldest+i)%len(r.asks)].req != noRequest {
			return true
		}
	}
	return false
}

// vacant returns the entry for the next ask.
func (r *requester) vacant() *ask { return &r.asks[(r.oldest+r.reads)%len(r.asks)] }

// first returns the oldest READ or atomic that was sent, or nil.
func (r *requester) first() *ask {
	if r.armed == 0 {
		return nil
	}
	return &r.asks[r.oldest]
}

// arm records that the next READ or atomic was sent, up to a position of the stream.
func (r *requester) arm(end uint64) {
	r.asks[(r.oldest+r.armed)%len(r.asks)].end = end
	r.armed++
}

// answered completes the oldest READ or atomic. Everything sent before it has left the link,
// even if the link has not reported so yet.
func (r *requester) answered(now time.Duration) {
	a := &r.asks[r.oldest]
	r.q.tx.release(a.end)
	r.oldest = (r.oldest + 1) % len(r.asks)
	r.reads--
	r.armed--
	if a.req != noRequest {
		r.requests[a.req].state |= done
	}
	r.advance(now)
}
