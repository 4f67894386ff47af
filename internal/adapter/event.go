package adapter

import (
	"context"
	"slices"
	"sync"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
)

// An AsyncEvent is an asynchronous event. Element is the *QP, *CQ or *SRQ that
// it concerns, nil for the device or port.
type AsyncEvent struct {
	Type    machine.Event
	Element any
	Detail  reason.Detail
}

// eventQueue holds events until the program takes them.
type eventQueue struct {
	mu     sync.Mutex
	list   []AsyncEvent
	signal chan struct{} // holds one token while list may be non-empty
}

func (q *eventQueue) init() { q.signal = make(chan struct{}, 1) }

func (q *eventQueue) push(e AsyncEvent) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	q.wake()
}

func (q *eventQueue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() (AsyncEvent, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return AsyncEvent{}, false
	}
	e := q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	if len(q.list) > 0 {
		q.wake()
	}
	return e, true
}

// drop forgets the events of an element that is being destroyed.
func (q *eventQueue) drop(element any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(e AsyncEvent) bool { return e.Element == element })
}

// NextEvent waits for the next asynchronous event.
func (d *Device) NextEvent(ctx context.Context) (AsyncEvent, error) {
	for {
		if e, ok := d.events.take(); ok {
			return e, nil
		}
		select {
		case <-d.events.signal:
		case <-ctx.Done():
			return AsyncEvent{}, ctx.Err()
		case <-d.done:
			if e, ok := d.events.take(); ok {
				return e, nil
			}
			return AsyncEvent{}, ErrClosed
		}
	}
}

// Raise queues an event of the device or one of its objects.
func (d *Device) Raise(t machine.Event, element any, why reason.Detail) {
	d.events.push(AsyncEvent{t, element, why})
}

// Event implements machine.Host.
func (d *Device) Event(p *machine.Port, e machine.Event, why reason.Detail) {
	d.Raise(e, d.laneOf(p.QPN).qps[p.QPN], why)
}

// Refuse implements machine.Host.
func (d *Device) Refuse(p *machine.Port, why reason.Detail) { d.Trace.Refuse(p.QPN, why) }

// StateChanged implements machine.Host.
func (d *Device) StateChanged(p *machine.Port, from qp.State, why reason.Detail) {
	if q := d.laneOf(p.QPN).qps[p.QPN]; q != nil {
		q.publishState(p.Attr.State)
	}
	if d.Trace.On() {
		d.Trace.Emit(&trace.Event{Kind: trace.State, Time: time.Now(), QPN: p.QPN, Detail: why, From: uint8(from), To: uint8(p.Attr.State)})
	}
}
