package verbs

import (
	"fmt"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Status is the status of a completion. Names and numbers are those of
// ibv_wc_status.
// `go doc -all softrdma/verbs.Status` lists the values.
type Status uint32

// The statuses (IBTA 11.6.2). `softrdma explain` describes cause and remedy of each.
const (
	Success        Status = 0
	LocLenErr      Status = 1  // the message is too long for the receive, or the request for the queue pair
	LocQPOpErr     Status = 2  // the request is malformed or not supported by the queue pair
	LocEECOpErr    Status = 3  // reliable datagrams: never given
	LocProtErr     Status = 4  // a scatter/gather entry is not in memory of its L_Key, or lacks the right
	WRFlushErr     Status = 5  // not executed: the queue pair is in ERR
	MWBindErr      Status = 6  // a memory window cannot be bound, or a key invalidated
	BadRespErr     Status = 7  // a response of the peer does not match the request
	LocAccessErr   Status = 8  // a request of the peer was refused access to this side's memory
	RemInvReqErr   Status = 9  // the peer found the request invalid
	RemAccessErr   Status = 10 // the peer refused access to its memory
	RemOpErr       Status = 11 // the peer could not execute the request
	RetryExcErr    Status = 12 // the peer did not answer: RetryCnt is exhausted
	RNRRetryExcErr Status = 13 // the peer had no receive posted: RNRRetry is exhausted
	LocRDDViolErr  Status = 14 // reliable datagrams: never given
	RemInvRDReqErr Status = 15 // reliable datagrams: never given
	RemAbortErr    Status = 16 // the peer ended the operation
	InvEECNErr     Status = 17 // reliable datagrams: never given
	InvEECStateErr Status = 18 // reliable datagrams: never given
	FatalErr       Status = 19 // the device failed
	RespTimeoutErr Status = 20 // no response in time
	GeneralErr     Status = 21 // another error
)

// String returns the name of ibv_wc_status, as "IBV_WC_RETRY_EXC_ERR".
func (s Status) String() string { return queue.Status(s).String() }

// A CompletionError is a failed completion as an error.
type CompletionError struct {
	Status Status
	WRID   uint64
	QPN    uint32

	why, peer reason.Detail
}

// Error returns the status, the named reason and its sentence, and what the peer says about it.
func (e *CompletionError) Error() string {
	if e.why.Reason == reason.None {
		return fmt.Sprintf("work request %d on QP %#06x: %v", e.WRID, e.QPN, e.Status)
	}
	see := e.why.Reason
	if e.peer.Reason.Known() && e.peer.Reason != reason.None {
		see = e.peer.Reason // which caused this side's
	}
	return fmt.Sprintf("work request %d on QP %#06x: %v: %s (see: softrdma explain %v)",
		e.WRID, e.QPN, e.Status, reason.Sides(e.why, e.peer), see)
}

// Peer returns why the peer refused the request, or if the request was flushed why it refused the one
// that failed first or ended the connection. It returns nil if the peer did not say so: peers other than
// softrdma do not, nor those with Config.KeepReasons. It is what the peer claims. A peer of a later
// version may have reasons without a name here.
func (e *CompletionError) Peer() ReasonError {
	if e.peer.Reason == reason.None {
		return nil
	}
	return &reason.Error{Detail: e.peer, Text: e.peer.Said()}
}

// Reason returns the name of the reason, as in traces and counters. It, Expected
// and Found implement ReasonError.
func (e *CompletionError) Reason() string { return e.why.Reason.String() }

// Expected returns what was expected. The meaning of the number depends on the reason.
func (e *CompletionError) Expected() uint64 { return e.why.Expected }

// Found returns what was found.
func (e *CompletionError) Found() uint64 { return e.why.Found }

// Cause returns the name of the reason for which the queue pair went to ERR if
// the request was flushed: "" if the program moved it there. Otherwise it returns
// Reason.
func (e *CompletionError) Cause() string {
	if e.why.Reason != reason.Flushed {
		return e.Reason()
	}
	if first := reason.Reason(e.why.Expected); first != reason.None {
		return first.String()
	}
	return ""
}

// An EventType is the type of an asynchronous event. The numbers are those of
// ibv_event_type.
type EventType uint8

// The events.
const (
	EventCQErr            EventType = 0 // a completion queue overflowed
	EventQPFatal          EventType = 1 // a queue pair went to ERR
	EventQPReqErr         EventType = 2 // the peer's request was invalid; now in ERR
	EventQPAccessErr      EventType = 3 // the peer's access was refused; now in ERR
	EventCommEst          EventType = 4 // the first packet arrived in RTR
	EventSQDrained        EventType = 5 // see QP.ToSQD
	EventDeviceFatal      EventType = 8 // the device cannot continue
	EventPortActive       EventType = 9
	EventPortErr          EventType = 10
	EventLIDChange        EventType = 11 // of a port of a fabric, as are the next three
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQErr           EventType = 14
	EventSRQLimitReached  EventType = 15 // see SRQ.SetLimit
	EventQPLastWQEReached EventType = 16 // the queue pair is in ERR and takes no more receives from its SRQ
	EventClientReregister EventType = 17 // join multicast groups again
	EventGIDChange        EventType = 18
)

var eventNames = map[EventType]string{
	EventCQErr: "IBV_EVENT_CQ_ERR", EventQPFatal: "IBV_EVENT_QP_FATAL", EventQPReqErr: "IBV_EVENT_QP_REQ_ERR",
	EventQPAccessErr: "IBV_EVENT_QP_ACCESS_ERR", EventCommEst: "IBV_EVENT_COMM_EST", EventSQDrained: "IBV_EVENT_SQ_DRAINED",
	EventDeviceFatal: "IBV_EVENT_DEVICE_FATAL", EventPortActive: "IBV_EVENT_PORT_ACTIVE", EventPortErr: "IBV_EVENT_PORT_ERR",
	EventSRQErr: "IBV_EVENT_SRQ_ERR", EventSRQLimitReached: "IBV_EVENT_SRQ_LIMIT_REACHED",
	EventLIDChange: "IBV_EVENT_LID_CHANGE", EventPKeyChange: "IBV_EVENT_PKEY_CHANGE", EventSMChange: "IBV_EVENT_SM_CHANGE",
	EventClientReregister: "IBV_EVENT_CLIENT_REREGISTER",
	EventQPLastWQEReached: "IBV_EVENT_QP_LAST_WQE_REACHED", EventGIDChange: "IBV_EVENT_GID_CHANGE",
}

// String returns libibverbs' name.
func (t EventType) String() string {
	if s, ok := eventNames[t]; ok {
		return s
	}
	return fmt.Sprintf("event %d", uint8(t))
}
