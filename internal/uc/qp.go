// Package uc is the unreliable connection as a machine without I/O: SEND and RDMA WRITE to one
// peer, in order, with lost messages dropped silently (IBTA 9.8.2). It owns segmentation and
// reassembly; package unreliable owns the completions. It never retries, answers only marked
// packets, and has no READ and no ATOMIC.
package uc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/unreliable"
)

// A QP is the transport half of a queue pair of type UC.
type QP struct {
	unreliable.Queues
	requester
	responder
	pacer    pacer
	notifier machine.Notifier
}

var _ machine.Machine = (*QP)(nil)

// New makes the machine of p. The caller fills and reads p. The congestion control is
// DCQCN or none, as others need acknowledges.
func New(p *machine.Port, control congestion.Kind) *QP {
	return &QP{Queues: unreliable.New(p), pacer: newPacer(control)}
}

// Capabilities implements machine.Machine.
func (q *QP) Capabilities() machine.Capabilities {
	return machine.Capabilities{Receiver: q, Sender: q}
}

// Transition follows a change of the state.
func (q *QP) Transition(now time.Duration, from qp.State) {
	q.Queues.Transition(now, from)
	switch {
	case q.Attr.State == qp.Reset:
		q.requester, q.responder = requester{}, responder{}
		q.pacer, q.notifier = newPacer(q.pacer.kind), machine.Notifier{}
	case q.Attr.State == qp.RTR && from == qp.Init:
		q.responder = responder{psn: q.Attr.RQPSN}
	case q.Attr.State == qp.RTS && from == qp.RTR:
		q.requester = requester{psn: q.Attr.SQPSN}
	}
}
