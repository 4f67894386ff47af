package adapter

import (
	"softrdma/internal/queue"
	"softrdma/internal/sanitize"
)

// sanitized lets the device's sanitizer, if it has one, check the use of a new queue pair. Requests
// in another layout than the ring's are not seen when they are posted.
func (q *QP) sanitized() {
	s := q.pd.dev.cfg.Sanitizer
	if s == nil || !q.SQ.InPlace() {
		return
	}
	p := &sanitize.Pair{
		QPN: q.QPN, Type: q.Type, PD: q.pd.ID, RecvPD: q.RecvPD, SignalAll: q.SQSigAll, SQ: q.SQ, SendCQ: q.sendCQ, RecvCQ: q.recvCQ, State: q.StateHint,
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
