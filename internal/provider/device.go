package provider

import (
	"context"
	"iter"

	"softrdma/internal/object"
	"softrdma/internal/reason"
)

// A Device is an open device. An owner is the caller's own object: events name
// by it what they concern.
type Device interface {
	AllocPD() (PD, error)
	CreateCQ(depth int, ch CompletionChannel, owner any) (CQ, error)
	CreateCompletionChannel() (CompletionChannel, error)
	OpenXRCD() (XRCD, error)

	// NextEvent waits for an asynchronous event.
	NextEvent(ctx context.Context) (AsyncEvent, error)

	MTU() int // of the port, active, bytes

	// Closed returns object.ErrClosed once the device is closed, else nil.
	Closed() error

	Count() object.Counts

	// Counters returns each reason that was given and how often.
	Counters() iter.Seq2[reason.Reason, uint64]

	// Traffic returns the bytes of payload in packets that were sent and received.
	Traffic() (sent, received uint64)

	// Close ends the device with all its objects. When it returns, the device no
	// longer accesses registered memory.
	Close() error
}

// An EventType is the type of an asynchronous event. The numbers are those of
// ibv_event_type.
type EventType uint8

// EventDeviceFatal is the event of a device that has ended.
const EventDeviceFatal EventType = 8

// An AsyncEvent is an asynchronous event (IBTA 11.6.3). Owner is the owner of
// the queue pair or queue that it concerns, nil for the device or port.
type AsyncEvent struct {
	Type   EventType
	Owner  any
	Detail reason.Detail
}
