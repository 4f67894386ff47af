package adapter

import (
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/sanitize"
)

// sanitized lets the device's sanitizer, if it has one, check the use of a new queue pair.
func (q *QP) sanitized() {
	s := q.pd.dev.cfg.Sanitizer
	if s == nil {
		return
	}
	p := &sanitize.Pair{
		QPN: q.QPN, Type: q.Type, PD: q.pd.ID, RecvPD: q.RecvPD, SignalAll: q.SQSigAll, SQ: q.SQ, SendCQ: q.sendCQ, RecvCQ: q.recvCQ, State: q.sanitizedState,
	}
	switch {
	case q.srq != nil:
		p.Recv, p.Shared = q.srq.Ring, q.srq
	case q.Recv != nil:
		p.Recv = func() *queue.RecvRing { return q.Recv }
	}
	s.CreatedPair(q, p)
	q.sanitizer = s
}

// sanitizedState is StateHint. Over iWARP it is ERR in SQD as well: librdmacm moves queue pairs there, and nowhere
// else, before it ends a connection (RFC 5040's Closing), after which no posted buffer is used.
func (q *QP) sanitizedState() qp.State {
	s := q.StateHint()
	if s == qp.SQD && q.pd.dev.IWARP() {
		return qp.Err
	}
	return s
}

// posted lets the sanitizer, if there is one, look at the requests that the program has posted.
func (q *QP) posted() {
	if q.sanitizer == nil {
		return
	}
	if !q.SQ.InPlace() { // the lane copies them to the ring
		q.lane.Lock()
		defer q.lane.Unlock()
		q.SQ.Producer()
	}
	q.sanitizer.Posted(q)
}

// PostedRequests notes that a program has posted requests, for which it rings no doorbell if they are in another
// layout than the ring's and the device is busy. It is called for the sanitizer.
func (q *QP) PostedRequests() {
	if !q.SQ.InPlace() {
		q.posted()
	}
}

// PostedReceives notes that a program has posted receives. It is called for the sanitizer.
func (q *QP) PostedReceives() {
	if q.sanitizer == nil {
		return
	}
	if q.Recv != nil && !q.Recv.InPlace() {
		q.lane.Lock()
		defer q.lane.Unlock()
		q.Recv.Len()
	}
	q.sanitizer.PostedReceives(q)
}

// PostedReceives is that of a QP.
func (s *SRQ) PostedReceives() {
	if s.pd.dev.cfg.Sanitizer == nil {
		return
	}
	s.mu.Lock() // also keeps Resize away
	defer s.mu.Unlock()
	s.ring.Load().Len()
	s.pd.dev.cfg.Sanitizer.PostedReceives(s)
}

// WindowObject returns what stands for a memory window, by any of its keys, in the device's sanitizer.
func WindowObject(key uint32) any { return windowIndex(key >> 8) }

// HandleObject returns what stands for an address handle in the device's sanitizer.
func HandleObject(num uint32) any { return handleNumber(num) }

type (
	windowIndex  uint32
	handleNumber uint32
)

// Sanitizer returns what checks the use of the device, nil if nothing does.
func (d *Device) Sanitizer() *sanitize.Sanitizer { return d.cfg.Sanitizer }
