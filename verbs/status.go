package verbs

import (
	"fmt"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Status is the status of a completion: names and numbers of ibv_wc_status.
type Status = queue.Status

// The statuses (IBTA 11.6.2). `softrdma explain` tells cause and remedy of each.
const (
	Success        = queue.Success
	LocLenErr      = queue.LocLenErr
	LocQPOpErr     = queue.LocQPOpErr
	LocEECOpErr    = queue.LocEECOpErr
	LocProtErr     = queue.LocProtErr
	WRFlushErr     = queue.WRFlushErr
	MWBindErr      = queue.MWBindErr
	BadRespErr     = queue.BadRespErr
	LocAccessErr   = queue.LocAccessErr
	RemInvReqErr   = queue.RemInvReqErr
	RemAccessErr   = queue.RemAccessErr
	RemOpErr       = queue.RemOpErr
	RetryExcErr    = queue.RetryExcErr
	RNRRetryExcErr = queue.RNRRetryExcErr
	LocRDDViolErr  = queue.LocRDDViolErr
	RemInvRDReqErr = queue.RemInvRDReqErr
	RemAbortErr    = queue.RemAbortErr
	InvEECNErr     = queue.InvEECNErr
	InvEECStateErr = queue.InvEECStateErr
	FatalErr       = queue.FatalErr
	RespTimeoutErr = queue.RespTimeoutErr
	GeneralErr     = queue.GeneralErr
)

// A CompletionError is an unsuccessful completion as an error.
type CompletionError struct {
	Status Status
	WRID   uint64
	QPN    uint32

	why reason.Detail
}

// Error gives the status, the named reason and its sentence.
func (e *CompletionError) Error() string {
	if e.why.Reason == reason.None {
		return fmt.Sprintf("work request %d on QP %#06x: %v", e.WRID, e.QPN, e.Status)
	}
	return fmt.Sprintf("work request %d on QP %#06x: %v: %v: %v (see: softrdma explain %v)",
		e.WRID, e.QPN, e.Status, e.why.Reason, e.why, e.why.Reason)
}

// Reason is the name of the reason, as in traces and counters.
func (e *CompletionError) Reason() string { return e.why.Reason.String() }

// An EventType is the type of an asynchronous event: the numbers of
// ibv_event_type.
type EventType uint8

// The events.
const (
	EventCQErr            = EventType(machine.EventCQErr)       // a completion queue overflowed
	EventQPFatal          = EventType(machine.EventQPFatal)     // a queue pair went to ERR, for the reason given
	EventQPReqErr         = EventType(machine.EventQPReqErr)    // the peer's request was invalid; now in ERR
	EventQPAccessErr      = EventType(machine.EventQPAccessErr) // the peer's access was refused; now in ERR
	EventCommEst          = EventType(machine.EventCommEst)     // the first packet came in RTR
	EventSQDrained        = EventType(machine.EventSQDrained)   // see QP.ToSQD
	EventDeviceFatal      = EventType(machine.EventDeviceFatal) // the device cannot go on
	EventPortActive       = EventType(machine.EventPortActive)
	EventPortErr          = EventType(machine.EventPortErr)
	EventSRQErr           = EventType(machine.EventSRQErr)
	EventSRQLimitReached  = EventType(machine.EventSRQLimitReached)  // see SRQ.SetLimit
	EventQPLastWQEReached = EventType(machine.EventQPLastWQEReached) // in ERR, takes no more of its SRQ
	EventGIDChange        = EventType(machine.EventGIDChange)
)

var eventNames = map[EventType]string{
	EventCQErr: "IBV_EVENT_CQ_ERR", EventQPFatal: "IBV_EVENT_QP_FATAL", EventQPReqErr: "IBV_EVENT_QP_REQ_ERR",
	EventQPAccessErr: "IBV_EVENT_QP_ACCESS_ERR", EventCommEst: "IBV_EVENT_COMM_EST", EventSQDrained: "IBV_EVENT_SQ_DRAINED",
	EventDeviceFatal: "IBV_EVENT_DEVICE_FATAL", EventPortActive: "IBV_EVENT_PORT_ACTIVE", EventPortErr: "IBV_EVENT_PORT_ERR",
	EventSRQErr: "IBV_EVENT_SRQ_ERR", EventSRQLimitReached: "IBV_EVENT_SRQ_LIMIT_REACHED",
	EventQPLastWQEReached: "IBV_EVENT_QP_LAST_WQE_REACHED", EventGIDChange: "IBV_EVENT_GID_CHANGE",
}

// String gives libibverbs' name.
func (t EventType) String() string {
	if s, ok := eventNames[t]; ok {
		return s
	}
	return fmt.Sprintf("event %d", uint8(t))
}
