package machine

import (
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Completions makes those of a connection's queue pair. In the error state it
// knows what came first, which flushed ones tell.
type Completions struct {
	port    *Port
	cause   reason.Reason // what took the queue pair to the error state
	status  queue.Status
	reached bool // EventQPLastWQEReached was raised

	cqe queue.CQE // scratch: a completion must not be allocated
}

// NewCompletions are those of p.
func NewCompletions(p *Port) Completions { return Completions{port: p} }

// Forget follows a reset.
func (c *Completions) Forget() { c.cause, c.status, c.reached = reason.None, queue.Success, false }

// Failed notes what takes the queue pair to the error state by itself, and the
// status that it has.
func (c *Completions) Failed(d reason.Detail, s queue.Status) { c.cause, c.status = d.Reason, s }

// Completion starts a completion in the scratch space. One in error is a
// solicited event whatever was asked (IBTA 11.4.2.2).
func (c *Completions) Completion(wrid uint64, op queue.WCOp, s queue.Status, d reason.Detail) *queue.CQE {
	c.cqe = queue.CQE{
		WRID: wrid, Op: op, Status: s, QPN: c.port.QPN,
		Reason: d.Reason, Expected: d.Expected, Found: d.Found,
	}
	if s != queue.Success {
		c.cqe.Solicited = 1
	}
	return &c.cqe
}

// Flushed is the detail of a flushed completion: what came first.
func (c *Completions) Flushed() reason.Detail {
	return reason.Detail{Reason: reason.Flushed, Expected: uint64(c.cause), Found: uint64(c.status)}
}

// LeaveShared follows a flush. A shared receive queue belongs to others as well:
// it keeps its requests, and the consumer is told once that this queue pair takes
// no more of them (IBTA 10.2.9.4, o11-5.2.5).
func (c *Completions) LeaveShared() {
	if c.port.RQ == nil || !c.port.RQ.Shared() || c.reached {
		return
	}
	c.reached = true
	c.port.Host.Event(c.port, EventQPLastWQEReached, c.Flushed())
}
