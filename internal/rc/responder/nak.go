package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A nak is the NAK that is owed or was sent. The expected request clears it.
type nak struct {
	due      bool
	sent     bool // no other one is sent until the expected request comes
	rnr      bool // it was an RNR NAK: nothing is held until the expected request comes
	syndrome ib.Syndrome
	psn      psn.PSN
}

// reject owes a NAK at the expected PSN.
func (r *Responder) reject(s ib.Syndrome) {
	r.nak.due, r.nak.syndrome, r.nak.psn = true, s, r.expected
}

// invalid refuses a request that violates the protocol (IBTA 9.9.3.1.3, class C).
func (r *Responder) invalid(d reason.Detail) {
	r.fatal(ib.NAKInvalidRequest, queue.RemInvReqErr, machine.EventQPReqErr, d)
}

// denied refuses a request that its key does not allow (IBTA 9.9.3.1.3, class C). The
// receive of a WRITE with immediate data gets a local access error (IBTA 11.6.2).
func (r *Responder) denied(d reason.Detail) {
	r.fatal(ib.NAKRemoteAccess, queue.LocAccessErr, machine.EventQPAccessErr, d)
}

// fatal refuses a request and ends the connection. The peer gets a NAK. The program gets
// the error as the completion of the receive in use, or else as an event (IBTA 9.9.3.1.3,
// C9-222.1.1; 11.6.3.2).
func (r *Responder) fatal(s ib.Syndrome, status queue.Status, e machine.Event, d reason.Detail) {
	r.c.Refuse(d)
	r.reject(s)
	r.end(status, e, d)
}

// end takes the queue pair to the error state. The answers that are owed still leave.
func (r *Responder) end(status queue.Status, e machine.Event, d reason.Detail) {
	if r.p.Attr.State == qp.Err {
		return
	}
	r.c.EnterErr(d, status)
	if r.taken {
		r.failReceive(status, d)
		return
	}
	r.p.Host.Event(r.p, e, d)
}
