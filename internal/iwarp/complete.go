package iwarp

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// advance completes the oldest requests that are done, in the order of posting. Requests after
// a READ wait for its answer.
func (r *requester) advance(now time.Duration) {
	for r.sq.Head != r.sq.End && r.p.Attr.State != qp.Err {
		w := &r.requests[r.sq.Head]
		switch {
		case w.state&failed != 0:
			r.fail(now, r.failStatus, r.failDetail)
			return
		case w.state&done == 0:
			return
		}
		r.complete(w)
	}
}

// complete completes the oldest request with success. It frees the slot before the completion
// becomes visible.
func (r *requester) complete(w *request) {
	wrid := r.p.SQ.At(r.sq.Head).WRID
	op, flags, length := queue.Op(w.op), queue.Flags(w.flags), w.length
	r.release()
	r.q.done.CountSend(op)
	r.q.done.Sent(wrid, op, flags, length)
}

// release frees the slot of the oldest request.
func (r *requester) release() {
	if r.sq.Release() {
		r.off = 0
	}
}

// failLater marks a request that cannot be executed. It completes in error when all earlier
// ones have completed (IBTA 10.8.3: in order of posting).
func (r *requester) failLater(now time.Duration, w *request, s queue.Status, d reason.Detail) {
	w.state |= failed
	r.failStatus, r.failDetail = s, d
	r.advance(now)
}

// fail completes the oldest request in error and ends the connection. The peer is told of
// a local catastrophic error if possible (RFC 5040 7.1).
func (r *requester) fail(now time.Duration, s queue.Status, d reason.Detail) {
	r.failAt(now, r.sq.Head, s, d, func() { r.q.terminate(now, iwarp.TermLocal, nil, d, s) })
}

// failAt completes the request at index i in error, and earlier ones as flushed. end takes the
// queue pair to the error state.
func (r *requester) failAt(now time.Duration, i uint32, s queue.Status, d reason.Detail, end func()) {
	r.q.refuse(d)
	sq := r.p.SQ
	end()
	for r.sq.Head != i {
		wrid, op := sq.At(r.sq.Head).WRID, sq.At(r.sq.Head).Op
		r.release()
		r.q.done.SendFailed(wrid, op, queue.WRFlushErr, r.q.done.Flushed())
	}
	wrid, op := sq.At(i).WRID, queue.Op(r.requests[i].op)
	r.release()
	r.q.done.SendFailed(wrid, op, s, d)
}

// terminated handles the peer's Terminate: the request that it names fails with the status
// that a NAK would give it. A request that has already completed, as SENDs and WRITEs do when
// the system has them, cannot fail any more, so an event reports the error. opening means that
// nothing came before the Terminate.
func (r *requester) terminated(now time.Duration, m *iwarp.Termination, opening bool) {
	q := r.q
	m.Term = settleTerm(m.Term, opening)
	q.term = m.Term
	status, why := terminateStatus(m.Term)
	i, ok := r.culprit(m)
	d := reason.Detail{Reason: why, Found: uint64(m.Term)}
	if m.HasDDP {
		d.Expected = uint64(m.Segment.MSN)
	}
	end := func() {
		q.enterErr(d, status)
		if s := q.s; s != nil {
			// RFC 5040 6.2.1: the stream is closed, and the Terminate is not answered.
			s.out, s.taken = nil, 0
			s.finish(d)
		}
	}
	if ok {
		r.failAt(now, i, status, d, end)
		return
	}
	q.refuse(d)
	end()
	q.p.Host.Event(q.p, machine.EventQPFatal, d)
}

// settleTerm decides between two errors that look alike because Linux's siw may have swapped
// layer and type: an error of the set-up comes before everything else (RFC 6581 8), an error
// of a message does not.
func settleTerm(t iwarp.Term, opening bool) iwarp.Term {
	setup := t == iwarp.TermMPAIRD || t == iwarp.TermMPARTR
	message := t == iwarp.TermOperationOpcode || t == iwarp.TermOperationStream
	if setup && !opening || message && opening {
		return t.Swapped()
	}
	return t
}

// culprit finds the request that a Terminate names by the header of its message. Linux's siw
// gives another number than the READ's, so the requested range decides if the Terminate
// contains it.
func (r *requester) culprit(m *iwarp.Termination) (uint32, bool) {
	if !m.HasDDP {
		return 0, false
	}
	for i := r.sq.Head; i != r.sq.End; i = r.p.SQ.Next(i) {
		if w := &r.requests[i]; w.state&started != 0 && r.named(w, i, m) {
			return i, true
		}
	}
	return 0, false
}

// named reports whether a Terminate names the request at index i.
func (r *requester) named(w *request, i uint32, m *iwarp.Termination) bool {
	s := &m.Segment
	to := r.p.SQ.At(i).RDMA()
	switch {
	case s.Tagged:
		return w.write() && s.Opcode == iwarp.Write && to.RKey == s.STag && s.TO-to.Addr <= uint64(w.length)
	case s.Queue == iwarp.QueueRead && m.HasRDMAP:
		return w.is(queue.Read) && w.state&done == 0 && r.asksFor(i, &m.Read)
	case s.Queue == iwarp.QueueRead:
		return w.responds() && w.msn == s.MSN
	case s.Queue == iwarp.QueueSend:
		return w.msn == s.MSN && (w.send() || w.is(queue.WriteImm) && w.state&written != 0)
	}
	return false
}

// asksFor reports whether a is the range that the READ at index i requests, or the unanswered
// end of it (RFC 5040 4.8). The sink distinguishes several READs of the same source.
func (r *requester) asksFor(i uint32, a *iwarp.Read) bool {
	from, length := r.p.SQ.At(i).RDMA(), uint64(r.requests[i].length)
	for k := range r.reads {
		x := &r.asks[(r.oldest+k)%len(r.asks)]
		if x.req != i {
			continue
		}
		answered := a.SinkTO - x.to
		return a.SinkSTag == x.stag && answered <= length && uint64(a.Size) == length-answered && a.SourceSTag == from.RKey && a.SourceTO == from.Addr+answered
	}
	return false
}
