package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A nak is the NAK that is owed or was sent. The expected request clears it.
type nak struct {
	due      bool
	tell     bool // the peer is told why before the NAK; see tell.go
	sent     bool // no other one is sent until the expected request comes
	rnr      bool // it was an RNR NAK: nothing is held until the expected request comes
	syndrome ib.Syndrome
	psn      psn.PSN
}

// refusals end a request that failed a check, and with it the connection if need be.
type refusals struct {
	receiving
	nak    nak
	reason *told // nil if nothing was refused for a reason
}

// reject owes a NAK at the expected PSN.
func (f *refusals) reject(s ib.Syndrome) {
	f.nak.due, f.nak.tell, f.nak.syndrome, f.nak.psn = true, false, s, f.expected
}

// invalid refuses a request that violates the protocol (IBTA 9.9.3.1.3, class C).
func (f *refusals) invalid(d reason.Detail) {
	f.fatal(ib.NAKInvalidRequest, queue.RemInvReqErr, machine.EventQPReqErr, d)
}

// denied refuses a request that its key does not allow (IBTA 9.9.3.1.3, class C). The
// receive of a WRITE with immediate data gets a local access error (IBTA 11.6.2).
func (f *refusals) denied(d reason.Detail) {
	f.fatal(ib.NAKRemoteAccess, queue.LocAccessErr, machine.EventQPAccessErr, d)
}

// permitted reports whether no rule of faults refuses the message at this packet. Package faults knows at
// which packets a responder refuses.
func (f *refusals) permitted(in *machine.In) bool {
	if in.Answer == 0 {
		return true
	}
	d := reason.Detail{Reason: reason.FaultAnswer, Expected: uint64(ib.ACK), Found: uint64(in.Answer)}
	switch s := in.Answer; {
	case s.IsRNR(), s == ib.NAKSequence: // both leave ePSN unchanged
		f.c.Refuse(d)
		f.nak.sent, f.nak.rnr = true, s.IsRNR()
		f.reject(s)
	case s == ib.NAKRemoteAccess:
		f.denied(d)
	case s == ib.NAKInvalidRequest:
		f.invalid(d)
	default:
		f.fatal(s, queue.LocQPOpErr, machine.EventQPFatal, d)
	}
	return false
}

// fatal refuses a request and ends the connection. The peer gets a NAK. The program gets
// the error as the completion of the receive in use, or else as an event (IBTA 9.9.3.1.3,
// C9-222.1.1; 11.6.3.2).
func (f *refusals) fatal(s ib.Syndrome, status queue.Status, e machine.Event, d reason.Detail) {
	f.c.Refuse(d)
	f.reject(s)
	f.tell(d)
	f.end(status, e, d)
}

// end takes the queue pair to the error state. The answers that are owed still leave.
func (f *refusals) end(status queue.Status, e machine.Event, d reason.Detail) {
	if f.p.Attr.State == qp.Err {
		return
	}
	f.c.EnterErr(d, status)
	if f.taken {
		f.failReceive(status, d)
		return
	}
	f.p.Host.Event(f.p, e, d)
}

// missing owes the NAK that makes the peer repeat everything from the expected request on.
func (f *refusals) missing() {
	f.nak.sent = true
	f.reject(ib.NAKSequence)
}

// AskAgain asks for the requests that were refused because of their port, without waiting for
// the peer's timer.
func (f *refusals) AskAgain() {
	if !f.nak.sent {
		f.missing()
	}
}

// intact reports whether the bytes that were just copied are the packet's payload. If not, the packet
// counts as lost, and its repetition uses the receive that it took.
func (f *refusals) intact(in *machine.In) bool {
	if in.Intact() {
		return true
	}
	f.c.Refuse(conn.Revoked(in))
	f.missing()
	return false
}
